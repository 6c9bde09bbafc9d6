// The processor and the machine that ranks may share: from /proc/cpuinfo, the cpufreq of the kernel (Linux), and the
// places of cards. Unknown fields are zero or empty.
#pragma once

#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace ridgepoint {

struct Host {
  int sockets = 0;
  int cores = 0;                              // physical
  int threads = 0;                            // hardware threads
  std::vector<std::string> instruction_sets;  // for arithmetic, narrow to wide: avx2 fma avx512f
};

Host describe_host();
// The same from a text laid out like /proc/cpuinfo.
Host parse_cpuinfo(std::istream& text);

// The highest current clock of all processors in MHz: an idle one says nothing. Empty where the kernel does not tell,
// as in most virtual machines. `folder` has a folder cpu0, cpu1, ... for each processor.
std::optional<double> fastest_processor_mhz(const std::filesystem::path& folder = "/sys/devices/system/cpu");

// The host's name and the PCI address of a GPU that is there; empty for other devices.
std::string place_of_card(const Device& device);

}  // namespace ridgepoint
