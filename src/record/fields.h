// The fields of a record by their paths, from settings.def and measures.def. Writers and readers of records use
// visit_fields(), so a new field needs only a member in record.h and a row.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ridgepoint/record/record.h"

namespace ridgepoint {

// A const record without the section reads an empty one; a mutable record gets the section.
template <typename Section>
const Section& section_of(const std::optional<Section>& section) {
  static const Section nothing;
  return section ? *section : nothing;
}
template <typename Section>
Section& section_of(std::optional<Section>& section) {
  return section ? *section : section.emplace();
}

// The sections of a record by the names that the rows of the tables use.
#define RIDGEPOINT_SECTIONS(record)                                  \
  [[maybe_unused]] auto& step = section_of((record).training_step);  \
  [[maybe_unused]] auto& call = section_of((record).attention_call); \
  [[maybe_unused]] auto& plan = section_of((record).plan);           \
  [[maybe_unused]] auto& peaks = section_of((record).peaks);

// Calls visit(path, member) for every statistic of one measured time. `statistics` may be const.
template <typename StatisticsType, typename Visitor>
void visit_statistics(const std::string& path, StatisticsType& statistics, Visitor&& visit) {
  visit(path + ".mean", statistics.mean);
  visit(path + ".std", statistics.std);
  visit(path + ".min", statistics.min);
  visit(path + ".max", statistics.max);
  visit(path + ".median", statistics.median);
  visit(path + ".cv", statistics.cv);
  visit(path + ".median_half_width", statistics.median_half_width);
  visit(path + ".quartiles", statistics.quartiles);
  visit(path + ".samples", statistics.samples);
}

// Calls visit(path, member) in the order of files: the schema, the settings, the results. Paths are as "batch" and
// "model.layers". Adds all sections to a mutable record.
template <typename RecordType, typename Visitor>
void visit_fields(RecordType& record, Visitor&& visit) {
  RIDGEPOINT_SECTIONS(record)
  const auto visit_path = [&](std::string_view path, auto& member) {
    if (!path.empty()) visit(path, member);
  };
  visit_path("schema", record.schema);
#define RIDGEPOINT_SETTING(path, member, ...) visit_path(path, member);
#define RIDGEPOINT_MEASURE(path, member, ...) visit_path(path, member);
#define RIDGEPOINT_OPTION(...)
#define RIDGEPOINT_STATISTICS(path, member, ...) visit_statistics(path, member, visit_path);
#define RIDGEPOINT_COLUMN(...)
// The settings come first.
// clang-format off
#include "record/settings.def"
#include "record/measures.def"
// clang-format on
#undef RIDGEPOINT_SETTING
#undef RIDGEPOINT_OPTION
#undef RIDGEPOINT_MEASURE
#undef RIDGEPOINT_STATISTICS
#undef RIDGEPOINT_COLUMN
}

// The values that each enum of a record may have.
constexpr std::span<const Mode> values_of(Mode) { return kAllModes; }
constexpr std::span<const Precision> values_of(Precision) { return kAllPrecisions; }
constexpr std::span<const Compile> values_of(Compile) { return kAllCompiles; }
constexpr std::span<const AllocatorKind> values_of(AllocatorKind) { return kAllAllocatorKinds; }
constexpr std::span<const AttentionVariant> values_of(AttentionVariant) { return kAllAttentionVariants; }
constexpr std::span<const Checkpoint> values_of(Checkpoint) { return kAllCheckpoints; }
constexpr std::span<const BaseWeights> values_of(BaseWeights) { return kAllBaseWeights; }
constexpr std::span<const Offload> values_of(Offload) { return kAllOffloads; }
constexpr std::span<const Optimizer> values_of(Optimizer) { return kAllOptimizers; }
constexpr std::span<const RunStatus> values_of(RunStatus) { return kAllRunStatuses; }
constexpr std::span<const Experiment> values_of(Experiment) { return kAllExperiments; }
constexpr std::span<const TimingVerdict> values_of(TimingVerdict) { return kAllTimingVerdicts; }
constexpr std::span<const SamplingEnd> values_of(SamplingEnd) { return kAllSamplingEnds; }

// The object and the name in it: {"model", "layers"}, {"", "batch"}.
struct FieldPlace {
  std::string object;
  std::string name;
};
inline FieldPlace place_of_field(std::string_view path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {"", std::string(path)};
  return {std::string(path.substr(0, dot)), std::string(path.substr(dot + 1))};
}

}  // namespace ridgepoint
