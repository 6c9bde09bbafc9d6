#include "core/random/random_values.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/random/element.h"
#include "core/threads/parallel.h"

namespace ridgepoint {
namespace {

// In blocks: loops without branches compute the central formula for all values of a block, and the last one replaces
// the 15% that are in the tails.
void fill_part(std::span<float> values, const TruncatedNormal& distribution, std::uint64_t stream, std::int64_t first) {
  constexpr std::size_t kBlock = 256;
  std::array<double, kBlock> probabilities;
  std::array<std::uint16_t, kBlock> tails;
  const auto scaled = [&](double value) {
    return static_cast<float>(distribution.mean + distribution.deviation * value);
  };
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::span<float> block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    const std::uint64_t start = static_cast<std::uint64_t>(first) + begin;
    for (std::size_t i = 0; i < block.size(); ++i) probabilities[i] = random_probability(stream, start + i);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = scaled(central_quantile(probabilities[i]));
    std::size_t tail_count = 0;
    for (std::size_t i = 0; i < block.size(); ++i) {
      tails[tail_count] = static_cast<std::uint16_t>(i);
      tail_count += static_cast<std::size_t>(is_in_tail(probabilities[i]));
    }
    for (std::size_t i = 0; i < tail_count; ++i) {
      const double p = probabilities[tails[i]];
      block[tails[i]] = scaled(tail_quantile(p, std::sqrt(tail_square(p))));
    }
  }
}

}  // namespace

std::uint64_t random_stream(std::string_view name, std::uint64_t seed) {
  std::uint64_t hash = mix(seed);
  for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

void fill_random(std::span<float> values, const TruncatedNormal& distribution, std::uint64_t stream, std::int64_t first,
                 const StopPoint& stop_point) {
  if (distribution.deviation == 0) {
    std::ranges::fill(values, static_cast<float>(distribution.mean));
    return;
  }
  constexpr std::int64_t kGrain = 16384;
  constexpr std::int64_t kBetweenStopPoints = 1 << 22;  // about 50 ms on one core
  const auto count = static_cast<std::int64_t>(values.size());
  for (std::int64_t done = 0; done < count; done += kBetweenStopPoints) {
    if (stop_point) stop_point();
    const std::int64_t length = std::min(kBetweenStopPoints, count - done);
    parallel_for(length, kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto part = values.subspan(static_cast<std::size_t>(done + begin), static_cast<std::size_t>(end - begin));
      fill_part(part, distribution, stream, first + done + begin);
    });
  }
}

void fill_uniform(std::span<std::int64_t> values, std::int64_t end, std::uint64_t stream, std::int64_t first) {
  const std::uint64_t begin = stream + static_cast<std::uint64_t>(first);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int64_t>(mix(begin + i) % static_cast<std::uint64_t>(end));
}

}  // namespace ridgepoint
