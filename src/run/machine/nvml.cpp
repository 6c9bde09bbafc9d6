#include "run/machine/nvml.h"

#include <dlfcn.h>

#include <array>
#include <string_view>
#include <utility>

namespace ridgepoint {
namespace {

// Of nvml.h: nvmlClockType_t, nvmlTemperatureSensors_t and nvmlClocksThrottleReason*.
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureOfGpu = 0;
constexpr std::array<std::pair<unsigned long long, std::string_view>, 9> kReasons = {
    {{0x001, "gpu_idle"},
     {0x002, "applications_clocks_setting"},
     {0x004, "sw_power_cap"},
     {0x008, "hw_slowdown"},
     {0x010, "sync_boost"},
     {0x020, "sw_thermal_slowdown"},
     {0x040, "hw_thermal_slowdown"},
     {0x080, "hw_power_brake_slowdown"},
     {0x100, "display_clock_setting"}}};

template <typename Function>
void load(void* library, Function& function, const char* symbol) {
  if (function == nullptr) function = reinterpret_cast<Function>(dlsym(library, symbol));
}

// What `read(&value)` stores, times `unit`, if it succeeds.
template <typename Value = unsigned, typename Read>
std::optional<double> value_of(bool has_function, double unit, const Read& read) {
  Value value = 0;
  if (!has_function || read(&value) != 0) return std::nullopt;
  return static_cast<double>(value) * unit;
}

}  // namespace

Nvml::Nvml(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  load(library, init_, "nvmlInit_v2");
  if (init_ == nullptr || init_() != 0) return;
  load(library, find_, "nvmlDeviceGetHandleByPciBusId_v2");
  load(library, clock_, "nvmlDeviceGetClockInfo");
  load(library, power_, "nvmlDeviceGetPowerUsage");
  load(library, temperature_, "nvmlDeviceGetTemperature");
  load(library, energy_, "nvmlDeviceGetTotalEnergyConsumption");
  // The second is the name before driver 535.
  load(library, throttle_reasons_, "nvmlDeviceGetCurrentClocksEventReasons");
  load(library, throttle_reasons_, "nvmlDeviceGetCurrentClocksThrottleReasons");
}

const Nvml& Nvml::of_driver() {
  static const Nvml nvml("libnvidia-ml.so.1");
  return nvml;
}

Nvml::Gpu Nvml::find(const std::string& pci_bus_id) const {
  Gpu gpu = nullptr;
  return find_ != nullptr && find_(pci_bus_id.c_str(), &gpu) == 0 ? gpu : nullptr;
}

GpuReading Nvml::read(Gpu gpu) const {
  GpuReading reading;
  if (gpu == nullptr) return reading;
  const auto clock_of = [&](int type) {
    return value_of(clock_ != nullptr, 1, [&](unsigned* mhz) { return clock_(gpu, type, mhz); });
  };
  reading.sm_clock_mhz = clock_of(kClockSm);
  reading.memory_clock_mhz = clock_of(kClockMemory);
  reading.power_watts =
      value_of(power_ != nullptr, 1e-3, [&](unsigned* milliwatts) { return power_(gpu, milliwatts); });
  reading.temperature_celsius = value_of(
      temperature_ != nullptr, 1, [&](unsigned* celsius) { return temperature_(gpu, kTemperatureOfGpu, celsius); });
  reading.energy_joules = value_of<unsigned long long>(
      energy_ != nullptr, 1e-3, [&](unsigned long long* millijoules) { return energy_(gpu, millijoules); });
  unsigned long long reasons = 0;
  if (throttle_reasons_ == nullptr || throttle_reasons_(gpu, &reasons) != 0) return reading;
  reading.throttle_reasons.emplace();
  for (const auto& [bit, name] : kReasons) {
    if ((reasons & bit) != 0) reading.throttle_reasons->emplace_back(name);
  }
  return reading;
}

}  // namespace ridgepoint
