/* Stands in for NVIDIA's driver where a test needs one that fails: FAKE_VERSION is the CUDA version it claims and
   FAKE_START what cuInit returns. Just enough of it for the failure to be found. */
int cuDriverGetVersion(int* version) {
  *version = FAKE_VERSION;
  return 0;
}
int cuInit(unsigned flags) {
  (void)flags;
  return FAKE_START;
}
#ifdef FAKE_COMPLETE
#define FAKE(name) \
  int name(void) { return 999; }
int cuGetErrorName(int error, const char** text) {
  (void)error;
  *text = "CUDA_ERROR_OF_A_TEST";
  return 0;
}
int cuGetErrorString(int error, const char** text) {
  (void)error;
  *text = "the driver's own words";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return 0;
}
FAKE(cuDeviceGet) FAKE(cuDeviceGetName) FAKE(cuDeviceGetAttribute) FAKE(cuDeviceTotalMem_v2)
FAKE(cuDevicePrimaryCtxRetain) FAKE(cuCtxSetCurrent) FAKE(cuCtxSynchronize)
FAKE(cuMemGetInfo_v2) FAKE(cuMemAlloc_v2) FAKE(cuMemFree_v2) FAKE(cuMemAllocHost_v2) FAKE(cuMemFreeHost)
FAKE(cuMemcpyHtoDAsync_v2) FAKE(cuMemcpyDtoHAsync_v2) FAKE(cuMemcpyDtoDAsync_v2) FAKE(cuMemsetD8Async)
FAKE(cuMemsetD32Async) FAKE(cuStreamCreate) FAKE(cuStreamSynchronize) FAKE(cuStreamWaitEvent) FAKE(cuEventCreate)
FAKE(cuEventDestroy_v2) FAKE(cuEventRecord) FAKE(cuEventSynchronize) FAKE(cuEventElapsedTime_v2)
FAKE(cuModuleLoadData) FAKE(cuModuleUnload) FAKE(cuModuleGetFunction) FAKE(cuFuncGetAttribute)
FAKE(cuFuncSetAttribute) FAKE(cuLaunchKernel) FAKE(cuLaunchKernelEx)
FAKE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
#endif
