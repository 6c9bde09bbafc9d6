#include "models/streams/alternating_updates.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridgepoint/ops/ops.h"

namespace ridgepoint {

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

}  // namespace ridgepoint
