// The clock of the processor, by the kernel's cpufreq.
#pragma once

#include <filesystem>
#include <optional>

namespace ridgepoint {

// The highest current clock of all processors in MHz: an idle one says nothing. Empty where the kernel does not tell,
// as in most virtual machines. `folder` has a folder cpu0, cpu1, ... for each processor.
std::optional<double> fastest_processor_mhz(const std::filesystem::path& folder = "/sys/devices/system/cpu");

}  // namespace ridgepoint
