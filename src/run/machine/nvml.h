// The state of an NVIDIA GPU by NVML (libnvidia-ml.so.1, part of the driver). The library is loaded at run time; if it
// or one of its functions is missing, fields are empty and nothing fails.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ridgepoint {

struct GpuReading {
  std::optional<double> sm_clock_mhz = {};
  std::optional<double> memory_clock_mhz = {};
  std::optional<double> power_watts = {};
  std::optional<double> temperature_celsius = {};
  std::optional<double> energy_joules = {};  // since the driver was loaded
  // Why the clocks are not higher, by NVML's names in lower case: sw_power_cap, hw_thermal_slowdown, ...
  std::optional<std::vector<std::string>> throttle_reasons = {};
};

class Nvml {
 public:
  using Gpu = struct nvmlDevice_st*;  // NVML's handle

  // `file` as the loader takes it. The library stays open.
  explicit Nvml(const std::string& file);
  // The driver's, opened at the first call.
  static const Nvml& of_driver();

  // Null if NVML does not know it. `pci_bus_id`: "00000000:19:00.0".
  Gpu find(const std::string& pci_bus_id) const;
  // Takes up to some milliseconds. `gpu` may be null.
  GpuReading read(Gpu gpu) const;

 private:
  // Functions and result type as in NVIDIA's nvml.h; 0 is success.
  using Result = int;
  Result (*init_)() = nullptr;
  Result (*find_)(const char* pci_bus_id, Gpu* gpu) = nullptr;
  Result (*clock_)(Gpu gpu, int type, unsigned* mhz) = nullptr;
  Result (*power_)(Gpu gpu, unsigned* milliwatts) = nullptr;
  Result (*temperature_)(Gpu gpu, int sensor, unsigned* celsius) = nullptr;
  Result (*energy_)(Gpu gpu, unsigned long long* millijoules) = nullptr;
  Result (*throttle_reasons_)(Gpu gpu, unsigned long long* reasons) = nullptr;
};

}  // namespace ridgepoint
