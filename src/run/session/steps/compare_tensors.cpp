#include "run/session/steps/compare_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double distance(double a, double b) {
  if (a == b) return 0;  // equal infinities included
  const double difference = std::fabs(a - b);
  return std::isnan(difference) ? kInfinity : difference;
}

// An infinite or NaN reference allows no difference.
double ratio_to_allowance(double difference, double reference, const Tolerance& tolerance) {
  if (difference == 0) return 0;
  const double allowance = tolerance.absolute + tolerance.relative * std::fabs(reference);
  return std::isfinite(allowance) && allowance > 0 ? difference / allowance : kInfinity;
}

// The L2 norm of rounding errors, a thousandth of `absolute` in each element: the gradient of a bias of keys is 0 for
// attention, and what is computed is rounding alone.
double norm_of_rounding(const Tolerance& tolerance, std::int64_t elements) {
  constexpr double kShare = 1e-3;
  return tolerance.elementwise ? kShare * tolerance.absolute * std::sqrt(static_cast<double>(elements)) : 0;
}

double finite_or_infinity(double value) { return std::isnan(value) ? kInfinity : value; }

}  // namespace

TensorDifference compare_tensors(const HostTensor& tensor, const HostTensor& reference, const Tolerance& tolerance) {
  if (!(tensor.type.shape == reference.type.shape))
    throw_error("a tensor of {} cannot be compared with one of {}", tensor.type.to_string(),
                reference.type.to_string());
  const std::size_t size = size_bytes(tensor.type.dtype), reference_size = size_bytes(reference.type.dtype);
  TensorDifference result;
  double squares = 0, reference_squares = 0;
  for (std::int64_t i = 0; i < tensor.type.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double a = load_element(tensor.type.dtype, tensor.data.data() + at * size);
    const double b = load_element(reference.type.dtype, reference.data.data() + at * reference_size);
    const double difference = distance(a, b);
    const double ratio = ratio_to_allowance(difference, b, tolerance);
    result.max_absolute = std::max(result.max_absolute, difference);
    if (difference > 0)
      result.max_relative = std::max(result.max_relative, finite_or_infinity(difference / std::fabs(b)));
    if (ratio > 1 && tolerance.elementwise) ++result.beyond;
    if (i == 0 || ratio > result.worst_ratio) {
      result.worst_ratio = ratio;
      result.worst_element = i;
      result.worst_value = a;
      result.worst_reference = b;
    }
    squares += difference * difference;
    reference_squares += b * b;
  }
  result.relative_l2 = finite_or_infinity(std::sqrt(reference_squares > 0 ? squares / reference_squares : squares));
  const bool has_norm = tolerance.relative > 0 && reference_squares > 0;
  const double allowed =
      tolerance.relative + norm_of_rounding(tolerance, tensor.type.elements()) / std::sqrt(reference_squares);
  const double norm_ratio = has_norm ? finite_or_infinity(result.relative_l2 / allowed) : 0;
  result.tolerance_ratio = has_norm && !tolerance.elementwise ? norm_ratio : std::max(result.worst_ratio, norm_ratio);
  result.is_rounding = result.tolerance_ratio <= 1 && has_norm && result.relative_l2 > tolerance.relative;
  return result;
}

HostTensor update_of(const HostTensor& after, const HostTensor& before) {
  if (!(after.type.shape == before.type.shape))
    throw_error("the parameter has shape {} before the steps and {} after them", before.type.to_string(),
                after.type.to_string());
  HostTensor update(TensorType{DType::fp64, after.type.shape});
  const std::span<double> elements = update.as<double>();
  const std::size_t after_size = size_bytes(after.type.dtype), before_size = size_bytes(before.type.dtype);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = load_element(after.type.dtype, after.data.data() + i * after_size) -
                  load_element(before.type.dtype, before.data.data() + i * before_size);
  }
  return update;
}

Tolerance update_tolerance(const Tolerance& values) {
  constexpr double kRoom = 100;
  if (values.relative == 0) return values;
  return {.relative = kRoom * values.relative, .absolute = values.absolute, .elementwise = false};
}

std::string element_name(const Shape& shape, std::int64_t element) {
  const auto strides = dense_strides(shape);
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t stride = strides[static_cast<std::size_t>(axis)];
    text += fmt::format("{}{}", axis == 0 ? "" : ",", element / stride);
    element %= stride;
  }
  return text + "]";
}

}  // namespace ridgepoint
