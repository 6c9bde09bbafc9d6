#include "models/random_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/threads/parallel.h"

namespace ridgepoint {
namespace {

// splitmix64 (Steele, Lea & Flood 2014): a well-mixed function of its argument.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// The normal quantile for 0.001 < p < 0.999 is that of algorithm AS 241, PPND7 (Wichura 1988), relative accuracy 1e-7.
// It has one formula for |p - 0.5| <= kCentral and one for the tails.
constexpr double kCentral = 0.425;

double central_quantile(double q) {
  const double r = 0.180625 - q * q;
  return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
         (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
}

double tail_quantile(double p) {
  const bool is_low = p < 0.5;
  const double r = std::sqrt(-std::log(is_low ? p : 1.0 - p)) - 1.6;
  const double tail = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
                      ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  return is_low ? -tail : tail;
}

constexpr double kBelowMinusThree = 0.0013498980316300933;  // normal probability below -3

// Fills `values` with the elements from number `first` on, in blocks: loops without branches compute the central
// formula for all elements of a block, and the last one replaces the 15% that are in the tails.
void fill_elements(std::span<float> values, double sigma, std::uint64_t stream, std::int64_t first) {
  constexpr std::size_t kBlock = 256;
  std::array<double, kBlock> probabilities;
  std::array<std::uint16_t, kBlock> tails;
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::span<float> block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    const std::uint64_t start = stream + static_cast<std::uint64_t>(first) + begin;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const double uniform = (static_cast<double>(mix(start + i) >> 11) + 0.5) * 0x1p-53;
      probabilities[i] = kBelowMinusThree + uniform * (1.0 - 2.0 * kBelowMinusThree);
    }
    for (std::size_t i = 0; i < block.size(); ++i)
      block[i] = static_cast<float>(sigma * central_quantile(probabilities[i] - 0.5));
    std::size_t tail_count = 0;
    for (std::size_t i = 0; i < block.size(); ++i) {
      tails[tail_count] = static_cast<std::uint16_t>(i);
      tail_count += static_cast<std::size_t>(std::fabs(probabilities[i] - 0.5) > kCentral);
    }
    for (std::size_t i = 0; i < tail_count; ++i)
      block[tails[i]] = static_cast<float>(sigma * tail_quantile(probabilities[tails[i]]));
  }
}

}  // namespace

std::uint64_t random_stream(const std::string& name, std::uint64_t seed) {
  std::uint64_t hash = mix(seed);
  for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

void fill_truncated_normal(std::span<float> values, double sigma, std::uint64_t stream, const StopPoint& stop_point) {
  constexpr std::int64_t kGrain = 16384;
  constexpr std::int64_t kBetweenStopPoints = 1 << 22;  // about 50 ms on one core
  const auto count = static_cast<std::int64_t>(values.size());
  for (std::int64_t first = 0; first < count; first += kBetweenStopPoints) {
    if (stop_point) stop_point();
    const std::int64_t length = std::min(kBetweenStopPoints, count - first);
    parallel_for(length, kGrain, [&](std::int64_t begin, std::int64_t end) {
      const auto part = values.subspan(static_cast<std::size_t>(first + begin), static_cast<std::size_t>(end - begin));
      fill_elements(part, sigma, stream, first + begin);
    });
  }
}

void fill_uniform(std::span<std::int64_t> values, std::int64_t end, std::uint64_t stream) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int64_t>(mix(stream + i) % static_cast<std::uint64_t>(end));
}

}  // namespace ridgepoint
