// The CUDA driver (libcuda.so.1) as a table of functions, loaded at run time, so that nothing links against it. Members
// are named as in cuda.h, whose macros choose the version of each function.
#pragma once

#include <cuda.h>

#include <string_view>

namespace ridgepoint::cuda {

// clang-format off
#define RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(F) \
  F(cuInit) F(cuDriverGetVersion) F(cuGetErrorName) F(cuGetErrorString) F(cuDeviceGetCount) F(cuDeviceGet) \
  F(cuDeviceGetName) F(cuDeviceGetAttribute) F(cuDeviceTotalMem) F(cuDevicePrimaryCtxRetain) \
  F(cuDevicePrimaryCtxRelease) F(cuCtxGetCurrent) F(cuCtxPushCurrent) F(cuCtxPopCurrent) \
  F(cuCtxGetStreamPriorityRange) \
  F(cuMemGetInfo) F(cuMemAlloc) F(cuMemFree) F(cuMemHostRegister) F(cuMemHostGetDevicePointer) F(cuMemcpyHtoDAsync) \
  F(cuMemcpyDtoHAsync) F(cuMemcpyDtoDAsync) F(cuMemsetD8Async) F(cuMemsetD32Async) F(cuPointerGetAttribute) \
  F(cuTensorMapEncodeTiled) \
  F(cuStreamQuery) F(cuEventQuery) F(cuStreamCreate) F(cuStreamCreateWithPriority) F(cuStreamWaitEvent) \
  F(cuEventCreate) F(cuEventDestroy) F(cuEventRecordWithFlags) F(cuEventElapsedTime) F(cuStreamBeginCapture) \
  F(cuStreamEndCapture) F(cuStreamIsCapturing) \
  F(cuModuleLoadData) F(cuModuleUnload) F(cuModuleGetFunction) F(cuFuncSetAttribute) F(cuLaunchKernel) \
  F(cuLaunchKernelEx) F(cuLaunchCooperativeKernel) \
  F(cuGraphInstantiateWithFlags) F(cuGraphLaunch) F(cuGraphDestroy) F(cuGraphExecDestroy) F(cuGraphGetNodes) \
  F(cuGraphNodeGetType) F(cuGraphNodeGetDependencies_v2) F(cuGraphNodeGetDependentNodes_v2) \
  F(cuGraphAddDependencies_v2) F(cuGraphAddKernelNode) F(cuGraphDestroyNode) F(cuGraphMemcpyNodeGetParams) F(cuGraphMemsetNodeGetParams)
// clang-format on

struct Driver {
#define RIDGEPOINT_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(RIDGEPOINT_CUDA_MEMBER)
#undef RIDGEPOINT_CUDA_MEMBER
};

// The initialised driver. Throws Error (unsupported) that says whether the driver is missing, older than the toolkit of
// this build, or without a GPU.
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
