// The fields that every record shares: time, device, binary and status.
#pragma once

#include <functional>
#include <string>

#include "ridgepoint/program.h"
#include "ridgepoint/record.h"
#include "run/timing/processor_wait.h"

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

}  // namespace ridgepoint
