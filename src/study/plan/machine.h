// The machine that a study measures, by the rows of `devices`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "ridgepoint/dtype.h"

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

}  // namespace ridgepoint
