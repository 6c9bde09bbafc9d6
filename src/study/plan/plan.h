// What a study runs: command lines of the program, chosen so that their predicted time fits a limit.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "ridgepoint/dtype.h"
#include "study/plan/part.h"

namespace ridgepoint {

// A device as `ridgepoint devices` describes it.
struct StudyMachine {
  std::string device = "cpu";  // as --device takes it: cpu, cuda, cuda:1
  std::string name;
  std::int64_t memory_bytes = 0;
  std::map<DType, double> flops_per_second;  // of matrix products; a type without a rate runs as fast as fp32
  double bytes_per_second = 0;               // of copies

  bool is_gpu() const { return device != "cpu"; }
};

// Throws Error where the rows lack the device, or say why it cannot be used.
StudyMachine study_machine(const std::vector<Json>& rows, std::string_view device);

struct StudySettings {
  std::string device;             // as StudyMachine has it
  int threads = 0;                // as --threads takes it
  std::int64_t ranks = 1;         // as --ranks takes it; 1: the parts of several ranks are left out
  std::string memory_limit = {};  // as --memory-limit takes it; empty: none
  std::int64_t memory_limit_bytes = 0;
  bool is_quick = false;
  double limit_seconds = 900;
  std::vector<std::string> models = {};  // as --model takes them; empty: by the machine and the limit
  std::string config_overrides = {};     // of the fields of their config.json, as --config-override takes them
};

struct StudyCommand {
  std::vector<std::string> arguments;  // of the program, its command first; {folder} stands for the study's folder
  std::int64_t rows = 1;               // that it prints; 0: not known before
  double seconds = 0;                  // predicted
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

// All parts in their order, those of several ranks only where there are any. Each has its cheapest rows, and more while
// its share of the time lasts.
std::vector<StudyPartPlan> plan_study(const StudyMachine& machine, const StudySettings& settings);

// `noted` is the plan that a study's folder has, and anyone may have changed; `planned`, the one made again from the
// study's options. Throws Error that names the first part or command line that differs.
void require_same_plan(std::span<const StudyPartPlan> noted, std::span<const StudyPartPlan> planned);

}  // namespace ridgepoint
