#include "backends/cuda/driver/driver.h"

#include <fmt/format.h>

#include <string>
#include <type_traits>

#include "backends/cuda/driver/shared_library.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::string_view kDriverFile = "libcuda.so.1";
// A driver runs everything built with a toolkit of its major version or older.
constexpr int kLeastVersion = CUDA_VERSION / 1000 * 1000;

// The first driver of that major version, for a person to look for: "driver 580 or newer".
std::string least_driver() {
  switch (kLeastVersion) {
    case 12000:
      return "525 or newer";
    case 13000:
      return "580 or newer";
    default:
      return fmt::format("for CUDA {}", kLeastVersion / 1000);
  }
}

[[noreturn]] void unsupported(const std::string& message) { throw Error(message, ErrorKind::unsupported); }

// Only what every driver has had for ever, so that an old one is told from a broken one.
void require_version(const SharedLibrary& library, std::string_view file) {
  const auto get_version = reinterpret_cast<decltype(&cuDriverGetVersion)>(library.find("cuDriverGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != CUDA_SUCCESS) {
    unsupported(
        fmt::format("{} does not answer as NVIDIA's driver does; reinstall the driver ({})", file, least_driver()));
  }
  if (version < kLeastVersion) {
    unsupported(fmt::format("NVIDIA's driver here supports CUDA {}.{} and this build needs {}.0; update to driver {}",
                            version / 1000, version % 1000 / 10, kLeastVersion / 1000, least_driver()));
  }
}

std::string describe(const Driver& table, CUresult result) {
  const char* name = nullptr;
  const char* words = nullptr;
  table.cuGetErrorName(result, &name);
  table.cuGetErrorString(result, &words);
  return fmt::format("{} ({})", words != nullptr ? words : "an error the driver does not name",
                     name != nullptr ? name : std::to_string(static_cast<int>(result)));
}

void initialise(const Driver& table) {
  const CUresult result = table.cuInit(0);
  int count = 0;
  if (result == CUDA_SUCCESS && table.cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 0) return;
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NO_DEVICE) {
    unsupported(
        "NVIDIA's driver is here and finds no card; see that nvidia-smi lists one and that "
        "CUDA_VISIBLE_DEVICES does not hide it");
  }
  unsupported(fmt::format("NVIDIA's driver does not start: {}; see that nvidia-smi runs", describe(table, result)));
}

// What a person can do about an error; empty where the error itself says it.
std::string_view advice(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return "; the card's memory is full, nvidia-smi lists the processes that hold it";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_ASSERT:
      return "; a kernel launched before this is at fault (compute-sanitizer names it), and this process cannot use "
             "the card any more";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return "; build for this card's architecture, or update the driver";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return "; another process has the card to itself";
    default:
      return "";
  }
}

}  // namespace

Driver open_driver(std::string_view file) {
  const SharedLibrary library(file);
  if (!library.is_open()) {
    unsupported(fmt::format("no NVIDIA driver: {} could not be opened ({}); install driver {}, or use --device cpu",
                            file, library.reason(), least_driver()));
  }
  require_version(library, file);
  Driver table;
  const auto find = [&](auto& entry, const char* symbol) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(library.find(symbol));
    if (entry == nullptr) {
      unsupported(fmt::format("{} has no function {}; update to driver {}", file, symbol, least_driver()));
    }
  };
// Two steps: cuda.h's macros name the version before the name becomes text.
#define RIDGEPOINT_CUDA_TEXT(name) #name
#define RIDGEPOINT_CUDA_FIND(name) find(table.name, RIDGEPOINT_CUDA_TEXT(name));
  RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(RIDGEPOINT_CUDA_FIND)
#undef RIDGEPOINT_CUDA_FIND
#undef RIDGEPOINT_CUDA_TEXT
  initialise(table);
  return table;
}

const Driver& driver() {
  static const Driver table = open_driver(kDriverFile);
  return table;
}

void throw_driver_error(CUresult result, const char* doing, const char* object) {
  throw Error(fmt::format("CUDA could not {}{}{}: {}{}", doing, object != nullptr ? " " : "",
                          object != nullptr ? object : "", describe(driver(), result), advice(result)),
              result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorKind::out_of_memory : ErrorKind::failure);
}

}  // namespace ridgepoint::cuda
