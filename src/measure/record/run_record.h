// What every record of a run has in common: when, on what and by which binary it was made, and how it ended.
#pragma once

#include <functional>
#include <string>

#include "measure/session/processor_wait.h"
#include "ridgepoint/program.h"
#include "ridgepoint/record.h"

namespace ridgepoint {

// Filled with what is known before the run, with the section of that experiment. `device` as open_device() takes it.
Record begin_record(Experiment experiment, const std::string& device, const DeviceOptions& options);

// What the device says of itself, once it is open.
void describe_device(Record& record, const Device& device);

// How much the processor was wanted elsewhere while the samples were taken, with a warning where that was much; of a
// device that computes on it alone.
void describe_wait(Record& record, const ProcessorWait& wait);

// Runs `stages`. An exception of the library or the host becomes the record's status and message; any other passes.
void record_outcome(Record& record, const std::function<void()>& stages);

}  // namespace ridgepoint
