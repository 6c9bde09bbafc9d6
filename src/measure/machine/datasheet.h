// What vendors say their cards do: memory, bandwidth, and dense arithmetic rates at boost clock. Rates with matrix
// units accumulate in fp32 and count no sparsity. `mfu` divides by these; nothing reaches them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ridgepoint {

struct Datasheet {
  std::string_view card;          // "H100 SXM"
  std::string_view aliases;       // what drivers call it, in lower case, separated by '|'
  std::int64_t memory_bytes = 0;  // "80 GB" of a datasheet is 80 GiB
  double bytes_per_second = 0;
  // Operations per second; empty where the card has no unit for it.
  std::optional<double> fp32, tf32, bf16, fp16, fp8;
};

// Every card known, by age.
std::span<const Datasheet> datasheets();

// By the name that the driver gives ("NVIDIA H100 80GB HBM3") or the one here, whatever the case; null for a card, or
// a part of one, that is not in the table.
const Datasheet* find_datasheet(std::string_view name);

// The rate for "fp32", "tf32", "bf16", "fp16" or "fp8"; empty for anything else.
std::optional<double> datasheet_flops_per_second(const Datasheet& sheet, std::string_view dtype);

}  // namespace ridgepoint
