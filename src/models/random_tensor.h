// Random tensors. Each element depends on the seed, the tensor's name and the element's index only, so that values do
// not depend on the number of threads or on any order.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ridgepoint/stop_point.h"

namespace ridgepoint {

// The random stream of the tensor `name`.
std::uint64_t random_stream(const std::string& name, std::uint64_t seed);

// Normal distribution with mean 0 and standard deviation `sigma`, truncated at 3 sigma.
void fill_truncated_normal(std::span<float> values, double sigma, std::uint64_t stream,
                           const StopPoint& stop_point = {});
// Uniform in [0, end).
void fill_uniform(std::span<std::int64_t> values, std::int64_t end, std::uint64_t stream);

}  // namespace ridgepoint
