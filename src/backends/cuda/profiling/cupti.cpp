#include "backends/cuda/profiling/cupti.h"

#include <fmt/format.h>

#include "backends/cuda/libraries/shared_library.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

// What the user can do about an error; empty if the error itself says it.
std::string_view advice(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_DISABLED:
    case CUPTI_ERROR_HARDWARE_BUSY:
      return "; another tool (nsys, ncu, cuda-gdb, compute-sanitizer) uses the GPU's only profiler: run without the "
             "tool";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "; the driver restricts profiling to administrators: see NVreg_RestrictProfilingToAdminUsers";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED: return "; this machine does not allow profiling of its GPUs";
    case CUPTI_ERROR_NOT_INITIALIZED:
      return "; the library may not match the driver: CUPTI must have the driver's CUDA version or an older one";
    case CUPTI_ERROR_OUT_OF_MEMORY: return "; it needs a few megabytes of the GPU's memory";
    default: return "";
  }
}

}  // namespace

Cupti open_cupti(std::string_view file) {
  const SharedLibrary library(file);
  if (!library.is_open())
    throw_error(ErrorKind::unsupported,
                "profiling a GPU needs {}, which could not be opened ({}); install the CUDA {} "
                "toolkit's CUPTI, or add its folder to LD_LIBRARY_PATH",
                file, library.reason(), toolkit_major());
  Cupti table;
#define RIDGEPOINT_CUPTI_FIND(name, ...) library.load(table.name, #name);
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
  throw_error(ErrorKind::unsupported, "CUPTI could not {}: {}{}", doing,
              words != nullptr ? words : fmt::format("error {}", static_cast<int>(result)), advice(result));
}

}  // namespace ridgepoint::cuda
