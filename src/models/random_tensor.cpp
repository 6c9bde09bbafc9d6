#include "models/random_tensor.h"

#include <algorithm>
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

// The normal quantile for 0.001 < p < 0.999: algorithm AS 241, PPND7 (Wichura 1988), relative accuracy 1e-7.
double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
           (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
  }
  const double r = std::sqrt(-std::log(q < 0 ? p : 1.0 - p)) - 1.6;
  const double tail = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
                      ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  return q < 0 ? -tail : tail;
}

constexpr double kBelowMinusThree = 0.0013498980316300933;  // normal probability below -3

float truncated_normal(double sigma, std::uint64_t stream, std::int64_t index) {
  const double uniform = (static_cast<double>(mix(stream + static_cast<std::uint64_t>(index)) >> 11) + 0.5) * 0x1p-53;
  return static_cast<float>(sigma * normal_quantile(kBelowMinusThree + uniform * (1.0 - 2.0 * kBelowMinusThree)));
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
      for (std::int64_t i = first + begin; i < first + end; ++i) {
        values[static_cast<std::size_t>(i)] = truncated_normal(sigma, stream, i);
      }
    });
  }
}

void fill_uniform(std::span<std::int64_t> values, std::int64_t end, std::uint64_t stream) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int64_t>(mix(stream + i) % static_cast<std::uint64_t>(end));
}

}  // namespace ridgepoint
