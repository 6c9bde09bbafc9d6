#include "predict/peaks.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridgepoint {
namespace {

std::optional<std::int64_t>& bytes_of(PeakSection::Categories& categories, std::string_view name) {
  if (name == "parameter") return categories.parameter;
  if (name == "gradient") return categories.gradient;
  if (name == "activation") return categories.activation;
  if (name == "optimizer_state") return categories.optimizer_state;
  if (name == "workspace") return categories.workspace;
  return name == "data" ? categories.data : categories.temporary;
}

std::optional<std::int64_t>& bytes_of(PeakSection::Phases& phases, Phase phase) {
  switch (phase) {
    case Phase::forward:
      return phases.forward;
    case Phase::loss:
      return phases.loss;
    case Phase::recompute:
      return phases.recompute;
    case Phase::backward:
      return phases.backward;
    case Phase::optimizer:
      break;
  }
  return phases.optimizer;
}

}  // namespace

PeakSection describe_peaks(const std::vector<PhaseMemory>& phases) {
  PeakSection section;
  const PhaseMemory* highest = nullptr;
  for (const PhaseMemory& memory : phases) {
    bytes_of(section.peak_by_phase, memory.phase) = static_cast<std::int64_t>(memory.peak_bytes);
    if (highest == nullptr || memory.peak_bytes > highest->peak_bytes) highest = &memory;
  }
  if (highest == nullptr) return section;
  section.peak_phase = name(highest->phase);
  for (const auto& [category, bytes] : highest->categories)
    bytes_of(section.peak_by_category, category) = static_cast<std::int64_t>(bytes);
  return section;
}

}  // namespace ridgepoint
