// The rates of a record of training steps, from its times.
#pragma once

#include <optional>

#include "ridgepoint/record.h"
#include "ridgepoint/workload.h"

namespace ridgepoint {

// Fills tokens_per_second, achieved_flops_per_second and mfu from the mean time and flops_per_step, where the two are
// known.
void fill_rates(Record& record, const Workload& workload);

// Fills the ceiling and the share of it that was achieved.
void fill_ceiling(Record& record, const std::optional<double>& ceiling_flops_per_second);

}  // namespace ridgepoint
