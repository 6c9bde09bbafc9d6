// The parts of a study, in the order in which they run. The rows of a part lie in records/NAME.jsonl of its folder.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/types/enum_names.h"

namespace ridgepoint {

enum class StudyPart : std::uint8_t {
  devices,              // what there is, with measured copy and matmul rates
  sizes,                // bench: model sizes, forward, backward and step, in fp32 and bf16
  warmup,               // bench: numbers of warm-up iterations, each row in a new process
  contexts,             // bench: one model over context lengths
  profile,              // profile: forward against step
  accumulation,         // precision: sums of many small terms
  autocast,             // precision: the type of every op under autocast
  precision_error,      // precision: the error of each module by type
  memory_peaks,         // memory: peaks by context, mode and type
  memory_step,          // memory: the timeline of a step
  memory_forward_loop,  // memory: the timeline of repeated training forwards
  attention_grid,       // attention: widths by sequence lengths, also lengths that do not fit
  attention_limit,      // attention: the longest sequence that fits
  accounting,           // attention: every tensor that is allocated before backward and at the peak
  ladder,               // attention: variants that keep three, two, one and no matrices of scores
  flash,                // attention: the tiled variant over long sequences
  compiled_attention,   // attention: not compiled against compiled
  compiled_model,       // bench: not compiled against compiled
  checkpointing,        // bench: checkpoint policies
  collectives,          // collectives: time and bandwidth over sizes; with --ranks alone
  ranks,                // bench: several ranks against one, by what they share; with --ranks alone
};
inline constexpr auto kStudyPartNames = enum_names<StudyPart>(
    "devices", "sizes", "warmup", "contexts", "profile", "accumulation", "autocast", "precision_error", "memory_peaks",
    "memory_step", "memory_forward_loop", "attention_grid", "attention_limit", "accounting", "ladder", "flash",
    "compiled_attention", "compiled_model", "checkpointing", "collectives", "ranks");
inline constexpr StudyPart kLastStudyPart = StudyPart::ranks;
constexpr std::string_view name(StudyPart part) { return kStudyPartNames[part]; }

// Whether its rows are records (docs/record.md).
constexpr bool has_records(StudyPart part) {
  switch (part) {
    case StudyPart::devices:
    case StudyPart::accumulation:
    case StudyPart::autocast:
    case StudyPart::precision_error:
    case StudyPart::attention_limit:
    case StudyPart::accounting:
    case StudyPart::collectives:
      return false;
    default:
      return true;
  }
}

}  // namespace ridgepoint
