// The plan of a study: command lines of the program, chosen so that their predicted time fits a limit.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "core/types/enum_names.h"
#include "ridgepoint/core/dtype.h"

namespace ridgepoint {

struct Datasheet;

// The parts of a study, in the order in which they run. The rows of a part lie in records/NAME.jsonl of its folder.
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
  sharded_memory,       // memory: each sharding before, in and after the optimizer's step
  data_parallel,        // bench: gradients one by one, as one message, in buckets
  calculations,         // plan --explain: what ranks send and keep, by formula
  leaderboard,          // attention or bench: the problem in which an edition's solutions compete
};
inline constexpr auto kStudyPartNames = enum_names<StudyPart>(
    "devices", "sizes", "warmup", "contexts", "profile", "accumulation", "autocast", "precision_error", "memory_peaks",
    "memory_step", "memory_forward_loop", "attention_grid", "attention_limit", "accounting", "ladder", "flash",
    "compiled_attention", "compiled_model", "checkpointing", "collectives", "ranks", "sharded_memory", "data_parallel",
    "calculations", "leaderboard");
inline constexpr StudyPart kLastStudyPart = StudyPart::leaderboard;
constexpr std::string_view name(StudyPart part) { return kStudyPartNames[part]; }

// Whether only editions of the exercise have it.
constexpr bool is_of_editions(StudyPart part) {
  return part == StudyPart::data_parallel || part == StudyPart::calculations || part == StudyPart::leaderboard;
}

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
    case StudyPart::calculations: return false;
    default: return true;
  }
}

// A device as `ridgepoint devices` describes it.
struct StudyMachine {
  std::string device = "cpu";  // as --device takes it: cpu, cuda, cuda:1; null where a card is only planned for
  std::string name;
  std::int64_t memory_bytes = 0;
  std::map<DType, double> flops_per_second;  // of matrix products; a type without a rate runs as fast as fp32
  double bytes_per_second = 0;               // of copies

  bool is_gpu() const { return device != "cpu"; }
};

// Throws Error where the rows lack the device, or say why it cannot be used.
StudyMachine study_machine(const std::vector<Json>& rows, std::string_view device);
// A card by its datasheet.
StudyMachine study_machine(const Datasheet& card);

struct StudySettings {
  std::string device;             // as StudyMachine has it
  std::string like = {};          // the edition of the exercise, as --like takes it; empty: none
  std::string card = {};          // nothing is measured: everything is planned for this card; empty: measure
  int threads = 0;                // as --threads takes it
  std::int64_t ranks = 1;         // as --ranks takes it; 1: the parts of several ranks are left out
  std::string memory_limit = {};  // as --memory-limit takes it; empty: none
  std::int64_t memory_limit_bytes = 0;
  bool is_quick = false;
  double limit_seconds = 900;
  std::vector<std::string> models = {};  // as --model takes them; empty: by the machine and the limit
  std::string config_overrides = {};     // of the fields of their config.json, as --config-override takes them

  bool is_plan() const { return !card.empty(); }
};

struct StudyCommand {
  std::vector<std::string> arguments;  // of the program, its command first; {folder} stands for the study's folder
  std::int64_t rows = 1;               // that it prints; 0: not known before
  double seconds = 0;                  // predicted
  std::int64_t bytes = 0;              // that it needs at the least; 0: not known
  std::int64_t ranks = 1;              // that it runs on
  enum class WithoutCard : std::uint8_t { is_planned, is_left_out, runs };
  WithoutCard without_card = WithoutCard::is_planned;
};

struct StudyPartPlan {
  StudyPart part = StudyPart::devices;
  std::string title;  // "Step benchmark over sizes, modes and number types"
  std::vector<StudyCommand> commands;

  std::int64_t rows() const;
  double seconds() const;
};

// The part `devices`, whose rows the plan of the others needs.
StudyPartPlan devices_part(const StudySettings& settings);

// "timelines/memory_step.csv", "pictures/memory_step.svg": the files that the command lines of a part write into the
// folder of the study, as --timeline says.
std::vector<std::string> timeline_files(const StudyPartPlan& part);

// All parts in order; parts of several ranks only if there are several. Each part has its cheapest rows, and more rows
// while its share of the time lasts. With an edition of the exercise, each part has all rows of the edition, and rows
// that do not fit are planned for a card. Throws Error (usage) for an unknown edition.
std::vector<StudyPartPlan> plan_study(const StudyMachine& machine, const StudySettings& settings);

// `noted` is the untrusted plan in a study's folder, `planned` the plan made again from the study's options. Throws
// Error that names the first part or command line that differs.
void require_same_plan(std::span<const StudyPartPlan> noted, std::span<const StudyPartPlan> planned);

}  // namespace ridgepoint
