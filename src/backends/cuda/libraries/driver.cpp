#include "backends/cuda/libraries/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "backends/cuda/libraries/kernel_images.h"
#include "backends/cuda/libraries/shared_library.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::string_view kDriverFile = "libcuda.so.1";

// A driver supports programs built with a toolkit of its major version or an older one. Those of CUDA 12 know the edges
// of graphs from 12.3 on.
int least_version() { return std::max(toolkit_version() / 1000 * 1000, 12030); }

// The first driver of that major version, for messages: "driver 580 or newer".
std::string least_driver() {
  if (least_version() == 12030) return "545 or newer";
  return least_version() == 13000 ? "580 or newer" : fmt::format("for CUDA {}", least_version() / 1000);
}

[[noreturn]] void unsupported(const std::string& message) { throw Error(message, ErrorKind::unsupported); }

// Calls only functions that every driver has, to tell an old driver from a broken one.
void require_version(const SharedLibrary& library, std::string_view file) {
  const auto get_version = reinterpret_cast<decltype(Driver::cuDriverGetVersion)>(library.find("cuDriverGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != CUDA_SUCCESS) {
    unsupported(
        fmt::format("{} does not work as NVIDIA's driver should; reinstall the driver ({})", file, least_driver()));
  }
  if (version < least_version()) {
    unsupported(fmt::format(
        "the installed NVIDIA driver supports CUDA {}.{}, but this build needs {}.{}; update to driver {}",
        version / 1000, version % 1000 / 10, least_version() / 1000, least_version() % 1000 / 10, least_driver()));
  }
}

std::string describe(const Driver& table, CUresult result) {
  const char* name = nullptr;
  const char* words = nullptr;
  table.cuGetErrorName(result, &name);
  table.cuGetErrorString(result, &words);
  return fmt::format("{} ({})", words != nullptr ? words : "unknown error",
                     name != nullptr ? name : std::to_string(static_cast<int>(result)));
}

void initialise(const Driver& table) {
  const CUresult result = table.cuInit(0);
  int count = 0;
  if (result == CUDA_SUCCESS && table.cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 0) return;
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NO_DEVICE) {
    unsupported(
        "NVIDIA's driver is installed but finds no GPU; check that nvidia-smi lists one and that "
        "CUDA_VISIBLE_DEVICES does not hide it");
  }
  unsupported(fmt::format("NVIDIA's driver does not start: {}; check that nvidia-smi runs", describe(table, result)));
}

// What the user can do about an error; empty if the error itself says it.
std::string_view advice(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return "; the GPU's memory is full: nvidia-smi lists the processes that use it";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_ASSERT:
      return "; an earlier kernel caused this (compute-sanitizer shows which), and this process cannot use the GPU "
             "any more";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION: return "; build for this GPU's architecture, or update the driver";
    case CUDA_ERROR_DEVICE_UNAVAILABLE: return "; another process has exclusive use of the GPU";
    default: return "";
  }
}

}  // namespace

Driver open_driver(std::string_view file) {
  const SharedLibrary library(file);
  if (!library.is_open()) {
    unsupported(
        fmt::format("there is no NVIDIA driver: {} could not be opened ({}); install driver {}, or use --device cpu",
                    file, library.reason(), least_driver()));
  }
  require_version(library, file);
  Driver table;
  const std::string advice = "; update to driver " + least_driver();
#define RIDGEPOINT_CUDA_FIND(name, ...) library.load(table.name, #name, advice);
  RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(RIDGEPOINT_CUDA_FIND)
#undef RIDGEPOINT_CUDA_FIND
  initialise(table);
  return table;
}

const Driver& driver() {
  static const Driver table = open_driver(kDriverFile);
  return table;
}

void throw_driver_error(CUresult result, const char* doing, const char* object) {
  throw_error(result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorKind::out_of_memory : ErrorKind::failure,
              "CUDA could not {}{}{}: {}{}", doing, object != nullptr ? " " : "", object != nullptr ? object : "",
              describe(driver(), result), advice(result));
}

}  // namespace ridgepoint::cuda
