#include "models/transformer/streams.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr const char* kParameterCount = "the parameter count";

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

// A layer asks for those of its router twice.
Value StreamUpdates::parameter(const char* name, Shape shape) {
  const std::string full = graph_.scope() + "." + name;
  if (const std::optional<Value> found = graph_.find_input(full)) return *found;
  return input(graph_, full, {DType::fp32, std::move(shape)}, Role::parameter);
}

Value StreamUpdates::linear(Value x, std::int64_t out, const char* name) {
  const ScopeGuard scope(graph_, name);
  const Value weight = parameter("weight", {Dim(out), graph_.type(x).shape.dim(-1)});
  return matmul(graph_, x, transpose(graph_, weight, {1, 0}));
}

Value StreamUpdates::mean_square(Value x) {
  const auto width = static_cast<double>(graph_.type(x).shape[-1]);
  return scale(graph_, reduce_sum(graph_, mul(graph_, x, x), {-1}, true), 1 / width);
}

// x at the root mean square of the other.
Value StreamUpdates::as_large(Value x, Value other) {
  constexpr double kLeast = 1e-5;
  const Value least = constant(graph_, kLeast, DType::fp32);
  const Value inverse = rsqrt(graph_, maximum(graph_, mean_square(x), least));
  return mul(graph_, x, mul(graph_, sqrt(graph_, mean_square(other)), inverse));
}

Value StreamUpdates::begin(Value x) {
  const ScopeGuard scope(graph_, "altup");
  const TensorType type = graph_.type(x);
  const Shape one{type.shape.dim(0), Dim(1), type.shape.dim(1)};
  std::vector<Value> streams = {reshape(graph_, x, one)};
  for (std::int64_t i = 0; i + 1 < made_of_.streams; ++i) {
    const ScopeGuard projections(graph_, "projections");
    const Value projected = linear(x, type.shape[1], std::to_string(i).c_str());
    streams.push_back(reshape(graph_, as_large(projected, x), one));
  }
  return concat(graph_, streams, 1);
}

Value StreamUpdates::end(Value streams) {
  const ScopeGuard scope(graph_, "altup");
  const Value first = stream(streams, 0);
  Value sum = first;
  for (std::int64_t i = 0; i + 1 < made_of_.streams; ++i) {
    const ScopeGuard projections(graph_, "last_projections");
    const Value own = stream(streams, i + 1);
    sum = add(graph_, sum, as_large(linear(own, graph_.type(own).shape[1], std::to_string(i).c_str()), first));
  }
  return scale(graph_, sum, 1 / static_cast<double>(made_of_.streams));
}

// [T,D]
Value StreamUpdates::stream(Value streams, std::int64_t index) {
  const Shape shape = graph_.type(streams).shape;
  std::vector<std::int64_t> sizes;
  if (index > 0) sizes.push_back(index);
  sizes.push_back(1);
  if (index + 1 < made_of_.streams) sizes.push_back(made_of_.streams - index - 1);
  const Value one = split(graph_, streams, 1, sizes)[index > 0 ? 1 : 0];
  return reshape(graph_, one, {shape.dim(0), shape.dim(2)});
}

Value StreamUpdates::active(Value streams) { return stream(streams, made_of_.active); }

Value StreamUpdates::modalities(Value x) {
  const Dim width = graph_.type(x).shape.dim(1);
  Value normed;
  {
    const ScopeGuard scope(graph_, "router_norm");
    const Value weight = scale(graph_, parameter("weight", {width}), 1 / static_cast<double>(width.size));
    normed = rms_norm(graph_, x, weight, epsilon_).first;
  }
  return tanh(graph_, linear(normed, made_of_.streams, "router"));
}

Value StreamUpdates::predicted(Value streams) {
  const ScopeGuard scope(graph_, "altup");
  const std::int64_t n = made_of_.streams;
  const Value mixes = linear(modalities(active(streams)), n * n, "prediction");
  const Value by_stream = reshape(graph_, mixes, {graph_.type(streams).shape.dim(0), Dim(n), Dim(n)});
  return add(graph_, streams, matmul(graph_, by_stream, streams));
}

Value StreamUpdates::corrected(Value predicted, Value made) {
  const ScopeGuard scope(graph_, "altup");
  const Shape shape = graph_.type(predicted).shape;
  const Value steps = shift(graph_, linear(modalities(made), made_of_.streams, "correction"), 1);
  const Value change = sub(graph_, made, active(predicted));
  const Value column = reshape(graph_, steps, {shape.dim(0), shape.dim(1), Dim(1)});
  const Value row = reshape(graph_, change, {shape.dim(0), Dim(1), shape.dim(2)});
  return add(graph_, predicted, mul(graph_, column, row));
}

Value StreamUpdates::scaled_active(Value streams) {
  const ScopeGuard scope(graph_, "altup");
  const Value x = active(streams);
  const Value factors = parameter("output_scale", {graph_.type(x).shape.dim(1)});
  return made_of_.has_scale ? mul(graph_, x, factors) : x;
}

Value StreamUpdates::with_term(Value streams, Value term) {
  const Shape shape = graph_.type(streams).shape;
  const std::vector<Value> parts = split(graph_, streams, 1, {1, made_of_.streams - 1});
  const Value row = reshape(graph_, term, {shape.dim(0), Dim(1), shape.dim(2)});
  return concat(graph_, {parts[0], add(graph_, parts[1], row)}, 1);
}

std::int64_t connection_parameters(const HyperConnections& made_of, std::int64_t d_model) {
  const std::int64_t n = made_of.streams;
  if (n == 0) return 0;
  return checked_sum(
      {checked_product({n + 2, n, checked_sum({checked_product({n, d_model}, kParameterCount), 1}, kParameterCount)},
                       kParameterCount),
       3},
      kParameterCount);
}

std::int64_t last_connection_parameters(const HyperConnections& made_of, std::int64_t d_model) {
  const std::int64_t n = made_of.streams;
  if (n == 0) return 0;
  return checked_sum(
      {checked_product({n, checked_sum({checked_product({n, d_model}, kParameterCount), 1}, kParameterCount)},
                       kParameterCount),
       1},
      kParameterCount);
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
