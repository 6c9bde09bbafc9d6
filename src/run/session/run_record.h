// The fields that every record shares: time, device, binary and status; and the rates of training steps, from their
// times.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ridgepoint/models/workload.h"
#include "ridgepoint/record/record.h"
#include "ridgepoint/runtime/program.h"
#include "run/timing/machine_state.h"

namespace ridgepoint {

// A record with the fields that are known before the run, and the section of the experiment. `device` is the name for
// open_device().
Record begin_record(Experiment experiment, const std::string& device, const DeviceOptions& options);

// Fills the fields of the opened device.
void describe_device(Record& record, const Device& device);

// CPU only: fills threads_waiting, and warns if it is large.
void describe_wait(Record& record, const ProcessorWait& wait);

// Runs `stages`. A std::exception becomes the status and the message of the record; anything else passes.
void record_outcome(Record& record, const std::function<void()>& stages);

// Fills tokens_per_second, achieved_flops_per_second and mfu from the mean time and flops_per_step, where the two are
// known.
void fill_rates(Record& record, const Workload& workload);

// Fills the ceiling and the share of it that was achieved.
void fill_ceiling(Record& record, const std::optional<double>& ceiling_flops_per_second);

}  // namespace ridgepoint
