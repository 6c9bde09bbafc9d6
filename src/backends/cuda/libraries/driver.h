// The CUDA driver (libcuda.so.1) as a table of functions, loaded at run time, so that nothing links against it.
#pragma once

#include <string_view>

#include "backends/cuda/libraries/driver_api.h"

namespace ridgepoint::cuda {

struct Driver {
#define RIDGEPOINT_CUDA_MEMBER(name, ...) CUresult (*name)(__VA_ARGS__) = nullptr;
  RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(RIDGEPOINT_CUDA_MEMBER)
#undef RIDGEPOINT_CUDA_MEMBER
};

// The initialised driver. Throws Error (unsupported) that says whether the driver is missing, too old for this
// build, or without a GPU.
const Driver& driver();
// The same from another library file, loaded at every call.
Driver open_driver(std::string_view file);

// Throws Error with the failed action, the driver's text and advice. `doing` completes "CUDA could not ...".
[[noreturn]] void throw_driver_error(CUresult result, const char* doing, const char* object = nullptr);
inline void check(CUresult result, const char* doing, const char* object = nullptr) {
  if (result != CUDA_SUCCESS) [[unlikely]]
    throw_driver_error(result, doing, object);
}

}  // namespace ridgepoint::cuda
