// Random values. Each depends on the seed, the name of its tensor and its number in the tensor only, so that values do
// not depend on the device, on the number of threads or on any order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/core/truncated_normal.h"

namespace ridgepoint {

// The random stream of the tensor `name`.
std::uint64_t random_stream(std::string_view name, std::uint64_t seed);

// The values of the stream from number `first` on.
void fill_random(std::span<float> values, const TruncatedNormal& distribution, std::uint64_t stream,
                 std::int64_t first = 0, const StopPoint& stop_point = {});
// Uniform in [0, end).
void fill_uniform(std::span<std::int64_t> values, std::int64_t end, std::uint64_t stream, std::int64_t first = 0);

}  // namespace ridgepoint
