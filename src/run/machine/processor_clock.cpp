#include "run/machine/processor_clock.h"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace ridgepoint {

std::optional<double> fastest_processor_mhz(const std::filesystem::path& folder) {
  std::error_code error;
  std::optional<double> fastest;
  for (const auto& processor : std::filesystem::directory_iterator(folder, error)) {
    std::ifstream file(processor.path() / "cpufreq" / "scaling_cur_freq");
    double khz = 0;
    if (file >> khz) fastest = std::max(fastest.value_or(0), khz * 1e-3);
  }
  return fastest;
}

}  // namespace ridgepoint
