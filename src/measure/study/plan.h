// What a study runs: command lines of the program, chosen so that their predicted time fits a limit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "measure/study/part.h"
#include "ridgepoint/dtype.h"

namespace ridgepoint {

// The device that a study measures, as `ridgepoint devices` describes it.
struct StudyMachine {
  std::string device = "cpu";  // as --device takes it: cpu, cuda, cuda:1
  std::string name;
  std::int64_t memory_bytes = 0;
  std::map<DType, double> flops_per_second;  // of matrix products; a type without a rate runs as fast as fp32
  double bytes_per_second = 0;               // of copies

  bool is_gpu() const { return device != "cpu"; }
};

// The machine of the rows of `devices`. Throws Error where they lack the device, or say why it cannot be used.
StudyMachine study_machine(const std::vector<Json>& rows, std::string_view device);

struct StudySettings {
  std::string device;             // as StudyMachine has it
  int threads = 0;                // as --threads takes it
  std::string memory_limit = {};  // as --memory-limit takes it; empty: none
  std::int64_t memory_limit_bytes = 0;
  bool is_quick = false;
  double limit_seconds = 900;
  std::vector<std::string> models = {};  // presets; empty: by the machine and the limit
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

// All parts in their order. Each has its cheapest rows, and more while its share of the time lasts.
std::vector<StudyPartPlan> plan_study(const StudyMachine& machine, const StudySettings& settings);

}  // namespace ridgepoint
