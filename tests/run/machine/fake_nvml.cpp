// An NVML that knows one GPU. Its clock falls by 100 MHz at each reading, its second reading reports heat, and it uses
// 100 J between two readings. With FAKE_WITHOUT_POWER it lacks the functions of power, energy and throttling.
#include <cstring>

namespace {
int the_gpu = 0;  // the number of readings
}

// NOLINTBEGIN(readability-identifier-naming): the names of NVML
extern "C" {

int nvmlInit_v2() {
  the_gpu = 0;
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* pci_bus_id, void** gpu) {
  if (std::strcmp(pci_bus_id, "00000000:19:00.0") != 0) return 6;  // NVML_ERROR_NOT_FOUND
  *gpu = &the_gpu;
  return 0;
}

int nvmlDeviceGetClockInfo(void* gpu, int type, unsigned* mhz) {
  *mhz = type == 2 ? 2619 : 1980 - 100 * static_cast<unsigned>((*static_cast<int*>(gpu))++);
  return 0;
}

int nvmlDeviceGetTemperature(void* gpu, int sensor, unsigned* celsius) {
  (void)gpu;
  *celsius = 45;
  return sensor == 0 ? 0 : 2;  // NVML_ERROR_INVALID_ARGUMENT
}

#ifndef FAKE_WITHOUT_POWER
int nvmlDeviceGetTotalEnergyConsumption(void* gpu, unsigned long long* millijoules) {
  *millijoules = 900000 + 100000 * static_cast<unsigned long long>(*static_cast<int*>(gpu));
  return 0;
}

int nvmlDeviceGetPowerUsage(void* gpu, unsigned* milliwatts) {
  (void)gpu;
  *milliwatts = 350500;
  return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* gpu, unsigned long long* reasons) {
  *reasons = *static_cast<int*>(gpu) == 2 ? 0x41 : 0x1;
  return 0;
}
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
