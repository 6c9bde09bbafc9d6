#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/types/enum_names.h"

namespace ridgepoint::train {
namespace {

constexpr auto kDecayNames = enum_names<Decay>("constant", "cosine", "linear", "wsd");

}  // namespace

std::string_view name(Decay decay) { return kDecayNames[decay]; }
Decay decay_from_name(std::string_view text) { return kDecayNames.parse(text, "unknown schedule '{}'"); }

double Schedule::learning_rate(std::int64_t step) const {
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (decay == Decay::constant) return peak;
  const std::int64_t begin = decay == Decay::wsd ? std::max(warmup, iterations - decay_steps) : warmup;
  if (step <= begin) return peak;
  const auto length = static_cast<double>(std::max<std::int64_t>(1, iterations - begin));
  const double share = std::min(1.0, static_cast<double>(step - begin) / length);
  if (decay == Decay::cosine) return lowest + (peak - lowest) * 0.5 * (1 + std::cos(std::numbers::pi * share));
  return peak + (lowest - peak) * share;
}

}  // namespace ridgepoint::train
