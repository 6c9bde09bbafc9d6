#include "study/plan/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// Throws Json::exception for a row that is not as `devices` writes it.
StudyMachine machine_from(const Json& row, std::string_view device) {
  StudyMachine machine;
  machine.device = device;
  machine.name = row.value("name", "");
  machine.memory_bytes = row.value("total_memory_bytes", std::int64_t{0});
  if (row.contains("copy")) machine.bytes_per_second = row.at("copy").value("bytes_per_second", 0.0);
  if (!row.contains("matmul")) return machine;
  for (const Json& rate : row.at("matmul")) {
    const auto name = rate.at("dtype").get<std::string>();
    if (name == "tf32" || name == "fp8") continue;  // ways to compute products, not types; no part uses them
    machine.flops_per_second[dtype_from_name(name)] = rate.at("flops_per_second").get<double>();
  }
  return machine;
}

}  // namespace

StudyMachine study_machine(const std::vector<Json>& rows, std::string_view device) {
  // `devices` calls the first GPU cuda:0, and cuda where it cannot be used.
  const auto is_device = [&](const Json& row) {
    const auto kind = row.find("kind");
    if (kind == row.end()) return false;
    const bool is_first_gpu = device == "cuda" || device == "cuda:0";
    return *kind == device || (is_first_gpu && (*kind == "cuda" || *kind == "cuda:0"));
  };
  const auto row = std::ranges::find_if(rows, is_device);
  if (row == rows.end()) throw Error(fmt::format("the devices that were found do not have '{}'", device));
  std::string problem;
  try {
    problem = row->value("problem", "");
    if (problem.empty()) return machine_from(*row, device);
  } catch (const Json::exception&) {
    throw Error(
        fmt::format("records/devices.jsonl is damaged: the row of '{}' is not as 'ridgepoint devices' writes "
                    "it; give --restart to measure everything again",
                    device));
  }
  throw Error(fmt::format("{}: {}", device, problem));
}

}  // namespace ridgepoint
