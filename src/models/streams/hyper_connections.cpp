#include "models/streams/hyper_connections.h"

#include <string>
#include <vector>

#include "core/checked.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr const char* kWhat = "the parameter count";

Value parameter(Graph& graph, const char* name, Shape shape) {
  return input(graph, graph.scope() + "." + name, {DType::fp32, std::move(shape)}, Role::parameter);
}

// The projections [T,rows] of all streams together, at a root mean square of 1.
Value projected(Graph& graph, Value streams, std::int64_t rows, double epsilon) {
  const Shape shape = graph.type(streams).shape;
  const Dim all(shape[1] * shape[2]);
  const Value flat = reshape(graph, streams, {shape.dim(0), all});
  const Value ones = broadcast(graph, constant(graph, 1, DType::fp32), {all});
  const Value normed = rms_norm(graph, flat, ones, epsilon).first;
  return matmul(graph, normed, transpose(graph, parameter(graph, "weight", {Dim(rows), all}), {1, 0}));
}

// [T,n] weights of [T,n,D] -> [T,D].
Value weighted_sum(Graph& graph, Value streams, Value weights) {
  const Shape shape = graph.type(streams).shape;
  const Value column = reshape(graph, weights, {shape.dim(0), shape.dim(1), Dim(1)});
  return reduce_sum(graph, mul(graph, streams, column), {1});
}

// Rows and columns of [T,n,n] in turn are divided by their sums.
Value doubly_stochastic(Graph& graph, Value logits, const HyperConnections& made_of) {
  const auto divided = [&](Value x, std::int64_t axis) {
    return div(graph, x, shift(graph, reduce_sum(graph, x, {axis}, true), made_of.epsilon));
  };
  Value mixing = divided(shift(graph, softmax(graph, logits), made_of.epsilon), -2);
  for (std::int64_t i = 1; i < made_of.iterations; ++i) mixing = divided(divided(mixing, -1), -2);
  return mixing;
}

}  // namespace

std::int64_t connection_parameters(const HyperConnections& made_of, std::int64_t d_model) {
  const std::int64_t n = made_of.streams;
  if (n == 0) return 0;
  return checked_sum(
      {checked_product({n + 2, n, checked_sum({checked_product({n, d_model}, kWhat), 1}, kWhat)}, kWhat), 3}, kWhat);
}

std::int64_t last_connection_parameters(const HyperConnections& made_of, std::int64_t d_model) {
  const std::int64_t n = made_of.streams;
  if (n == 0) return 0;
  return checked_sum({checked_product({n, checked_sum({checked_product({n, d_model}, kWhat), 1}, kWhat)}, kWhat), 1},
                     kWhat);
}

Connection connect(Graph& graph, Value streams, const HyperConnections& made_of, double norm_epsilon) {
  const std::int64_t n = made_of.streams;
  const Dim tokens = graph.type(streams).shape.dim(0);
  const std::vector<std::int64_t> sizes = {n, n, n * n};
  const std::vector<Value> products = split(graph, projected(graph, streams, n * (n + 2), norm_epsilon), -1, sizes);
  const std::vector<Value> biases = split(graph, parameter(graph, "bias", {Dim(n * (n + 2))}), 0, sizes);
  const std::vector<Value> scales = split(graph, parameter(graph, "scale", {Dim(3)}), 0, {1, 1, 1});
  const auto logits = [&](std::size_t i) { return add(graph, mul(graph, products[i], scales[i]), biases[i]); };
  const Value weights = shift(graph, sigmoid(graph, logits(0)), made_of.epsilon);
  const Value of_made = scale(graph, sigmoid(graph, logits(1)), 2);
  const Value mixing = doubly_stochastic(graph, reshape(graph, logits(2), {tokens, Dim(n), Dim(n)}), made_of);
  return {weighted_sum(graph, streams, weights), reshape(graph, of_made, {tokens, Dim(n), Dim(1)}),
          transpose(graph, mixing, {0, 2, 1})};
}

Value with_made(Graph& graph, Value streams, const Connection& connection, Value made) {
  const Shape shape = graph.type(made).shape;
  const Value row = reshape(graph, made, {shape.dim(0), Dim(1), shape.dim(1)});
  const Value mixed = matmul(graph, connection.mixing, streams);
  return add(graph, mul(graph, connection.of_made, row), mixed);
}

Value last_sum(Graph& graph, Value streams, const HyperConnections& made_of, double norm_epsilon) {
  const std::int64_t n = made_of.streams;
  const Value products = projected(graph, streams, n, norm_epsilon);
  const Value scaled = mul(graph, products, parameter(graph, "scale", {Dim(1)}));
  const Value logits = add(graph, scaled, parameter(graph, "bias", {Dim(n)}));
  return weighted_sum(graph, streams, shift(graph, sigmoid(graph, logits), made_of.epsilon));
}

}  // namespace ridgepoint
