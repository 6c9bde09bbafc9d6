#include "backends/build_facts.h"

#include <fmt/format.h>
#include <hwy/highway.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>

#include "backends/cpu/device.h"
#include "backends/cuda/libraries/kernel_images.h"
#include "backends/cuda/libraries/nvrtc.h"
#include "backends/cuda/products/choice/cublaslt.h"
#include "core/build_info.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

std::string onednn_version() {
  const dnnl::version_t* version = dnnl::version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string cublaslt_version() {
  try {
    const std::size_t version = cuda::cublaslt().cublasLtGetVersion();  // 10000 * major + 100 * minor + patch
    return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
  } catch (const Error&) {
    return "not found";
  }
}

std::string nvrtc_version() {
  try {
    return cuda::nvrtc().version();
  } catch (const Error&) {
    return "not found";
  }
}

}  // namespace

std::vector<BuildFact> build_facts() {
  const std::string_view widest = cpu::instruction_set();
  // "gcc 12.2.0, Release"
  const std::string_view built = compiler();
  const std::size_t comma = built.rfind(", ");
  std::vector<BuildFact> facts = {
      {"version", "version", std::string(version())},
      {"revision", "commit", std::string(revision())},
      {"compiler", "compiler", std::string(built.substr(0, comma))},
      {"build_type", "build type", std::string(built.substr(comma + 2))},
      {"instruction_set", "instruction set here", widest.empty() ? "the processor's least" : std::string(widest)},
      {"onednn", "oneDNN", onednn_version()},
      {"highway", "Highway", fmt::format("{}.{}", HWY_MAJOR, HWY_MINOR)},
      {"fmt", "fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION % 10000 / 100, FMT_VERSION % 100)},
      {"json", "JSON for Modern C++",
       fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
      {"zlib", "zlib", zlibVersion()},
      {"openmp", "OpenMP", fmt::to_string(_OPENMP)},
  };
  const int toolkit = cuda::toolkit_version();
  if (toolkit == 0) {
    facts.push_back({"cuda_toolkit", "CUDA toolkit", "none: built without CUDA kernels"});
    return facts;
  }
  facts.push_back({"cuda_toolkit", "CUDA toolkit", fmt::format("{}.{}", toolkit / 1000, toolkit % 1000 / 10)});
  facts.push_back({"cublaslt", "cuBLASLt here", cublaslt_version()});
  facts.push_back({"nvrtc", "NVRTC here", nvrtc_version()});
  return facts;
}

}  // namespace ridgepoint
