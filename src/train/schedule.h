// The learning rate of each step.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ridgepoint::train {

// How the rate falls after warm-up. constant: not. cosine: along half a cosine to the lowest rate (Loshchilov & Hutter
// 2017). linear: along a line. wsd (warm-up, stable, decay; Hu et al. 2024, arXiv:2404.06395): constant, and linear in
// the last part.
enum class Decay : std::uint8_t { constant, cosine, linear, wsd };
inline constexpr std::array kAllDecays = {Decay::constant, Decay::cosine, Decay::linear, Decay::wsd};
// constant cosine linear wsd
std::string_view name(Decay decay);
// The inverse of name(). Throws Error (usage) naming the nearest.
Decay decay_from_name(std::string_view text);

struct Schedule {
  Decay decay = Decay::constant;
  double peak = 1e-3;
  double lowest = 0;             // at the end; constant has none
  std::int64_t warmup = 0;       // steps in which the rate grows along a line from 0: step s has s / warmup of it
  std::int64_t iterations = 1;   // the last step, in which the rate is the lowest
  std::int64_t decay_steps = 0;  // wsd: the last steps, in which it falls

  // Of a step, counted from 1; steps behind the last have its rate.
  double learning_rate(std::int64_t step) const;
};

}  // namespace ridgepoint::train
