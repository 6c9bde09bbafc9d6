// A fake driver for tests of failures: FAKE_VERSION is its CUDA version, FAKE_START the result of cuInit, and
// FAKE_COMPLETE whether it has the other functions.
extern "C" {

int cuDriverGetVersion(int* version) {
  *version = FAKE_VERSION;
  return 0;
}

#if FAKE_COMPLETE
int cuInit(unsigned) { return FAKE_START; }
int cuDeviceGetCount(int* count) {
  *count = 0;
  return 0;
}
int cuGetErrorName(int, const char** text) {
  *text = "CUDA_ERROR_OF_A_TEST";
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "the driver's own words";
  return 0;
}

// clang-format off
#define FAKE(name) \
  int name() { return 999; }
FAKE(cuDeviceGet) FAKE(cuDeviceGetName) FAKE(cuDeviceGetAttribute) FAKE(cuDeviceTotalMem_v2)
FAKE(cuDevicePrimaryCtxRetain) FAKE(cuDevicePrimaryCtxRelease_v2) FAKE(cuCtxGetCurrent) FAKE(cuCtxPushCurrent_v2)
FAKE(cuCtxPopCurrent_v2) FAKE(cuMemGetInfo_v2)
FAKE(cuMemAlloc_v2) FAKE(cuMemFree_v2) FAKE(cuMemHostRegister_v2) FAKE(cuMemHostUnregister) FAKE(cuMemHostGetDevicePointer_v2)
FAKE(cuMemcpyHtoDAsync_v2) FAKE(cuLaunchHostFunc)
FAKE(cuMemcpyDtoHAsync_v2) FAKE(cuMemcpyDtoDAsync_v2) FAKE(cuMemsetD8Async) FAKE(cuMemsetD32Async) FAKE(cuPointerGetAttribute)
FAKE(cuStreamBeginCapture_v2) FAKE(cuStreamEndCapture) FAKE(cuGraphInstantiateWithFlags) FAKE(cuGraphLaunch)
FAKE(cuGraphDestroy) FAKE(cuGraphExecDestroy) FAKE(cuTensorMapEncodeTiled)
FAKE(cuGraphGetNodes) FAKE(cuGraphNodeGetType) FAKE(cuGraphNodeGetDependencies_v2)
FAKE(cuGraphNodeGetDependentNodes_v2) FAKE(cuGraphAddDependencies_v2) FAKE(cuGraphAddKernelNode_v2)
FAKE(cuGraphKernelNodeSetAttribute) FAKE(cuGraphDestroyNode) FAKE(cuGraphMemcpyNodeGetParams) FAKE(cuGraphMemsetNodeGetParams)
FAKE(cuStreamCreate) FAKE(cuStreamCreateWithPriority) FAKE(cuCtxGetStreamPriorityRange) FAKE(cuStreamQuery)
FAKE(cuStreamWaitEvent) FAKE(cuEventCreate) FAKE(cuEventDestroy_v2)
FAKE(cuEventRecordWithFlags) FAKE(cuStreamIsCapturing)
FAKE(cuEventQuery) FAKE(cuEventElapsedTime)
FAKE(cuModuleLoadData) FAKE(cuModuleUnload) FAKE(cuModuleGetFunction)
FAKE(cuFuncSetAttribute) FAKE(cuLaunchKernel) FAKE(cuLaunchKernelEx) FAKE(cuLaunchCooperativeKernel)
// clang-format on

#endif

}  // extern "C"
