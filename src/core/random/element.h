// One element of a random tensor, from its number: the same bits on every processor and on the GPU. Host and device
// code both include this header. It must be compiled without fused multiply-adds, which round differently.
#pragma once

#include <bit>
#include <cstdint>

namespace ridgepoint {

// splitmix64 (Steele, Lea & Flood 2014): a well-mixed function of its argument.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// A probability of the normal distribution within 3 deviations of the mean, uniform: between 0.00134 and 0.99866.
constexpr double random_probability(std::uint64_t stream, std::uint64_t number) {
  constexpr double kBelowMinusThree = 0.0013498980316300933;  // the probability of a value below -3 deviations
  const double uniform = (static_cast<double>(mix(stream + number) >> 11) + 0.5) * 0x1p-53;
  return kBelowMinusThree + uniform * (1.0 - 2.0 * kBelowMinusThree);
}

// The natural logarithm of a normal number, to 1e-13.
constexpr double natural_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<int>(bits >> 52) - 1023;
  auto mantissa = std::bit_cast<double>((bits & 0xfffffffffffffU) | 0x3ff0000000000000U);  // from 1 to 2
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log(m) = 2 atanh((m - 1) / (m + 1)), whose argument is at most 0.172.
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double z = s * s;
  const double series =
      1.0 + z * (1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11 + z * (1.0 / 13 + z / 15))))));
  return static_cast<double>(exponent) * 0.6931471805599453 + 2.0 * s * series;
}

// The normal quantile for 0.001 < p < 0.999 is that of algorithm AS 241, PPND7 (Wichura 1988), relative accuracy 1e-7.
// It has one formula for |p - 0.5| <= kCentralProbability and one for the tails.
inline constexpr double kCentralProbability = 0.425;

constexpr bool is_in_tail(double p) { return p - 0.5 > kCentralProbability || 0.5 - p > kCentralProbability; }

constexpr double central_quantile(double p) {
  const double q = p - 0.5;
  const double r = 0.180625 - q * q;
  return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
         (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
}

// `root`: the square root of tail_square(p).
constexpr double tail_square(double p) { return -natural_log(p < 0.5 ? p : 1.0 - p); }
constexpr double tail_quantile(double p, double root) {
  const double r = root - 1.6;
  const double tail = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
                      ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  return p < 0.5 ? -tail : tail;
}

}  // namespace ridgepoint
