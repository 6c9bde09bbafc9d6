// Published figures of GPUs: bandwidth, and dense arithmetic rates at boost clock. Rates of tensor cores
// accumulate in fp32 and are without sparsity. `mfu` divides by these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

struct Datasheet {
  std::string_view card;       // "H100 SXM"
  std::string_view aliases;    // names that drivers use, in lower case, separated by '|'
  int compute_capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;  // as CUDA reports it: 79.18 GiB of an "80 GB" card
  double bytes_per_second = 0;
  // Operations per second; empty where the card has no unit for it.
  std::optional<double> fp32, tf32, bf16, fp16, fp8;
  // Of NVLink in one direction, all links together; empty where the card has none.
  std::optional<double> link_bytes_per_second = {};
};

// All known GPUs, oldest first.
std::span<const Datasheet> datasheets();

// The options with which a null device has the GPU's kernels and workspaces (DeviceOptions::card).
CardDescription describe_card(const Datasheet& sheet);

// Bytes per second to or from the host: 16 lanes of PCIe 5 from compute capability 9.0 on, of PCIe 4 before.
double host_link_bytes_per_second(const Datasheet& sheet);

// Finds a GPU by the driver's name ("NVIDIA H100 80GB HBM3") or by `card`, ignoring case. Null if it is not in the
// table, as for a MIG slice.
const Datasheet* find_datasheet(std::string_view name);

// The rate for "fp32", "tf32", "bf16", "fp16" or "fp8"; empty for anything else.
std::optional<double> datasheet_flops_per_second(const Datasheet& sheet, std::string_view dtype);

// The rates of a GPU for a dtype, or for fp32 if the GPU has no unit for the dtype. A GPU that is not in the table has
// the rates of an H100.
struct DatasheetRates {
  std::string_view card;
  double flops_per_second = 0;
  double bytes_per_second = 0;
};
DatasheetRates datasheet_rates(std::string_view name, std::string_view dtype);

}  // namespace ridgepoint
