// The CUDA driver (libcuda.so.1) as a table of entry points, found at run time; nothing links against it. A member
// is named as in cuda.h, whose macros pick the version of each.
#pragma once

#include <cuda.h>

#include <string_view>

namespace ridgepoint::cuda {

// clang-format indents such a list of calls further every time.
// clang-format off
#define RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(F) \
  F(cuInit) F(cuDriverGetVersion) F(cuGetErrorName) F(cuGetErrorString) F(cuDeviceGetCount) F(cuDeviceGet) \
  F(cuDeviceGetName) F(cuDeviceGetAttribute) F(cuDeviceTotalMem) F(cuDevicePrimaryCtxRetain) \
  F(cuDevicePrimaryCtxRelease) F(cuCtxGetCurrent) F(cuCtxPushCurrent) F(cuCtxPopCurrent) \
  F(cuCtxSynchronize) F(cuMemGetInfo) F(cuMemAlloc) F(cuMemFree) F(cuMemAllocHost) F(cuMemFreeHost) \
  F(cuMemcpyHtoDAsync) F(cuMemcpyDtoHAsync) F(cuMemcpyDtoDAsync) F(cuMemsetD8Async) F(cuMemsetD32Async) \
  F(cuStreamCreate) F(cuStreamSynchronize) F(cuStreamWaitEvent) F(cuEventCreate) F(cuEventDestroy) F(cuEventRecord) \
  F(cuEventSynchronize) F(cuEventElapsedTime) F(cuModuleLoadData) F(cuModuleUnload) F(cuModuleGetFunction) \
  F(cuFuncGetAttribute) F(cuFuncSetAttribute) F(cuLaunchKernel) F(cuLaunchCooperativeKernel) \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessor)
// clang-format on

struct Driver {
#define RIDGEPOINT_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(RIDGEPOINT_CUDA_MEMBER)
#undef RIDGEPOINT_CUDA_MEMBER
};

// The initialised driver. Throws Error (unsupported) when there is none, it is older than the toolkit this was built
// with, or there is no card; says which.
const Driver& driver();
// The same from a library of another name, not kept.
Driver open_driver(std::string_view file);

// Throws Error: what was being done, what the driver says of it, and what helps. `doing` continues "CUDA could not".
[[noreturn]] void throw_driver_error(CUresult result, const char* doing, const char* object = nullptr);
inline void check(CUresult result, const char* doing, const char* object = nullptr) {
  if (result != CUDA_SUCCESS) [[unlikely]]
    throw_driver_error(result, doing, object);
}

}  // namespace ridgepoint::cuda
