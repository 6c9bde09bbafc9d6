#include "backends/cuda/nvrtc.h"

#include <fmt/format.h>

#include "backends/cuda/shared_library.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::string_view kFile = "libnvrtc.so.13";

Nvrtc load() {
  const SharedLibrary library(kFile);
  if (!library.is_open()) {
    throw Error(fmt::format("CUDA kernels are compiled by {}, which could not be opened ({}); install the CUDA 13 "
                            "toolkit or name its lib64 folder in LD_LIBRARY_PATH",
                            kFile, library.reason()),
                ErrorKind::unsupported);
  }
  Nvrtc table;
  const auto find = [&](auto& entry, const char* symbol) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(library.find(symbol));
    if (entry == nullptr) throw Error(fmt::format("{} has no function {}", kFile, symbol), ErrorKind::unsupported);
  };
#define RIDGEPOINT_NVRTC_FIND(name) find(table.name, #name);
  RIDGEPOINT_NVRTC_FUNCTIONS(RIDGEPOINT_NVRTC_FIND)
#undef RIDGEPOINT_NVRTC_FIND
  return table;
}

}  // namespace

const Nvrtc& nvrtc() {
  static const Nvrtc table = load();
  return table;
}

std::string nvrtc_version() {
  int major = 0;
  int minor = 0;
  check(nvrtc().nvrtcVersion(&major, &minor), "tell its version");
  return fmt::format("{}.{}", major, minor);
}

void check(nvrtcResult result, std::string_view doing) {
  if (result == NVRTC_SUCCESS) return;
  throw Error(fmt::format("NVRTC could not {}: {}", doing, nvrtc().nvrtcGetErrorString(result)));
}

}  // namespace ridgepoint::cuda
