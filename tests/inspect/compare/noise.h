// Synthetic times with fixed seeds: what a machine does to measurements, without a machine.
#pragma once

#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <vector>

namespace ridgepoint {

class Noise {
 public:
  explicit Noise(std::uint64_t seed) : bits_(seed) {}
  // Between 0 and 1, neither included.
  double uniform() { return (static_cast<double>(bits_() >> 11) + 0.5) * 0x1p-53; }
  // Box and Muller's method: the distributions of the standard library differ between its implementations.
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  std::mt19937_64 bits_;
};

// The time of an iteration whose true median is about 10 ms.
using MakeTime = std::function<double(Noise&)>;

inline MakeTime normal_times(double share) {
  return [share](Noise& noise) { return 10 * (1 + share * noise.normal()); };
}
// One in ten is up to several times as long.
inline double heavy_tailed_time(Noise& noise) {
  const double ms = 10 * (1 + 0.01 * noise.normal());
  return noise.uniform() < 0.1 ? ms * (1 - std::log(noise.uniform())) : ms;
}
// Two modes, 5 % apart; `share` of the times are in the lower one.
inline MakeTime bimodal_times(double share) {
  return [share](Noise& noise) { return (noise.uniform() < share ? 10 : 10.5) * (1 + 0.005 * noise.normal()); };
}

inline std::vector<double> times_of(std::size_t count, const MakeTime& make, Noise& noise, double factor = 1) {
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(factor * make(noise));
  return times;
}

// Factors of an autoregressive process: each deviates as the one before it did, less a little.
inline std::vector<double> drift(std::size_t count, double correlation, double share, Noise& noise) {
  std::vector<double> factors;
  double deviation = noise.normal();
  for (std::size_t i = 0; i < count; ++i) {
    factors.push_back(std::exp(share * deviation));
    deviation = correlation * deviation + std::sqrt(1 - correlation * correlation) * noise.normal();
  }
  return factors;
}

}  // namespace ridgepoint
