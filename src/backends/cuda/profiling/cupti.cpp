#include "backends/cuda/profiling/cupti.h"

#include <fmt/format.h>

#include <type_traits>

#include "backends/cuda/driver/shared_library.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

// What a person can do about an error; empty where the error itself says it.
std::string_view advice(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_DISABLED:
    case CUPTI_ERROR_HARDWARE_BUSY:
      return "; another tool (nsys, ncu, cuda-gdb, compute-sanitizer) has the card's profiler, and there is only one: "
             "run "
             "without it";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "; the driver keeps profiling to administrators: see NVreg_RestrictProfilingToAdminUsers";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
      return "; this machine does not let its cards be profiled";
    case CUPTI_ERROR_NOT_INITIALIZED:
      return "; the library and the driver may not go together: CUPTI must be of the driver's CUDA version or older";
    case CUPTI_ERROR_OUT_OF_MEMORY:
      return "; it needs some megabytes of the card's memory for itself";
    default:
      return "";
  }
}

}  // namespace

Cupti open_cupti(std::string_view file) {
  const SharedLibrary library(file);
  if (!library.is_open()) {
    throw Error(fmt::format("kernels on a card are recorded by {}, which could not be opened ({}); install the CUDA {} "
                            "toolkit's CUPTI or name its folder in LD_LIBRARY_PATH",
                            file, library.reason(), toolkit_major()),
                ErrorKind::unsupported);
  }
  Cupti table;
  const auto find = [&](auto& entry, const char* symbol) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(library.find(symbol));
    if (entry == nullptr) throw Error(fmt::format("{} has no function {}", file, symbol), ErrorKind::unsupported);
  };
#define RIDGEPOINT_CUPTI_FIND(name) find(table.name, #name);
  RIDGEPOINT_CUPTI_FUNCTIONS(RIDGEPOINT_CUPTI_FIND)
#undef RIDGEPOINT_CUPTI_FIND
  return table;
}

const Cupti& cupti() {
  static const Cupti table = open_cupti(toolkit_library("cupti"));
  return table;
}

void throw_cupti_error(const Cupti& table, CUptiResult result, const char* doing) {
  const char* words = nullptr;
  table.cuptiGetResultString(result, &words);
  throw Error(fmt::format("CUPTI could not {}: {}{}", doing,
                          words != nullptr ? words : fmt::format("error {}", static_cast<int>(result)), advice(result)),
              ErrorKind::unsupported);
}

}  // namespace ridgepoint::cuda
