// Random tensors whose every element is a function of the seed, the tensor's name and the element's index, so that
// they do not depend on threads or order.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ridgepoint/stop_point.h"

namespace ridgepoint {

// What tells one tensor's numbers from another's.
std::uint64_t random_stream(const std::string& name, std::uint64_t seed);

// Normal with mean 0 and deviation `sigma`, cut at 3 sigma.
void fill_truncated_normal(std::span<float> values, double sigma, std::uint64_t stream,
                           const StopPoint& stop_point = {});
// Uniform in [0, end).
void fill_uniform(std::span<std::int64_t> values, std::int64_t end, std::uint64_t stream);

}  // namespace ridgepoint
