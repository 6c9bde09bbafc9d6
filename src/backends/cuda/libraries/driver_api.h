// The part of the CUDA driver's interface that the engine calls, so that no build needs NVIDIA's headers. Names, values
// and layouts are those of cuda.h since CUDA 12.3, and tests/backends/cuda/libraries/toolkit_headers.cpp compares them
// with a toolkit's. Handles stay opaque; an enumeration has the values that the engine names, and its type holds any
// other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ridgepoint::cuda {
// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUkernel = struct CUkern_st*;
using CUarray = struct CUarray_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;

enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_INVALID_SOURCE = 300,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
};

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};
enum CUfunction_attribute : int { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
enum CUpointer_attribute : int { CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2 };
enum CUmemorytype : int { CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_UNIFIED = 4 };
enum CUstreamCaptureMode : int { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum CUstreamCaptureStatus : int { CU_STREAM_CAPTURE_STATUS_NONE = 0, CU_STREAM_CAPTURE_STATUS_ACTIVE = 1 };
enum CUgraphNodeType : int {
  CU_GRAPH_NODE_TYPE_KERNEL = 0,
  CU_GRAPH_NODE_TYPE_MEMCPY = 1,
  CU_GRAPH_NODE_TYPE_MEMSET = 2,
  CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
};
enum CUlaunchAttributeID : int {
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
  CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
};
enum CUtensorMapDataType : int {
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
};
enum CUtensorMapInterleave : int { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum CUtensorMapSwizzle : int {
  CU_TENSOR_MAP_SWIZZLE_32B = 1,
  CU_TENSOR_MAP_SWIZZLE_64B = 2,
  CU_TENSOR_MAP_SWIZZLE_128B = 3,
};
enum CUtensorMapL2promotion : int { CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3 };
enum CUtensorMapFloatOOBfill : int { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };

// Flags, which functions take as integers.
enum CUstream_flags : unsigned { CU_STREAM_NON_BLOCKING = 1 };
enum CUevent_flags : unsigned { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };
enum CUevent_record_flags : unsigned { CU_EVENT_RECORD_DEFAULT = 0, CU_EVENT_RECORD_EXTERNAL = 1 };
enum CUevent_wait_flags : unsigned { CU_EVENT_WAIT_DEFAULT = 0 };
enum CUgraphInstantiate_flags : unsigned { CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8 };
inline constexpr unsigned CU_MEMHOSTREGISTER_DEVICEMAP = 2;

// Toolkits before CUDA 13 align it to 64 bytes.
struct alignas(128) CUtensorMap {
  std::uint64_t opaque[16];
};

union CUlaunchAttributeValue {
  char pad[64];
  int programmaticStreamSerializationAllowed;
  int priority;
};
struct CUlaunchAttribute {
  CUlaunchAttributeID id;
  char pad[8 - sizeof(CUlaunchAttributeID)];
  CUlaunchAttributeValue value;
};
struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};

struct CUgraphEdgeData {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
};
struct CUDA_KERNEL_NODE_PARAMS {  // version 2
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  void** kernelParams;
  void** extra;
  CUkernel kern;
  CUcontext ctx;
};
struct CUDA_MEMSET_NODE_PARAMS {  // version 1
  CUdeviceptr dst;
  std::size_t pitch;
  unsigned value;
  unsigned elementSize;  // bytes
  std::size_t width;     // elements
  std::size_t height;
};
struct CUDA_MEMCPY3D {  // version 2
  std::size_t srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  void* reserved0;
  std::size_t srcPitch, srcHeight;
  std::size_t dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  void* reserved1;
  std::size_t dstPitch, dstHeight;
  std::size_t WidthInBytes, Height, Depth;
};

// Every function with its parameters, under the name that the library exports: a suffix is the function's version. The
// result is always a CUresult. cuEventElapsedTime stays at its first version, because drivers before CUDA 12.8 have no
// other.
// clang-format off
#define RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(F) \
  F(cuInit, unsigned flags) \
  F(cuDriverGetVersion, int* version) \
  F(cuGetErrorName, CUresult error, const char** name) \
  F(cuGetErrorString, CUresult error, const char** text) \
  F(cuDeviceGetCount, int* count) \
  F(cuDeviceGet, CUdevice* device, int ordinal) \
  F(cuDeviceGetName, char* name, int most_chars, CUdevice device) \
  F(cuDeviceGetAttribute, int* value, CUdevice_attribute which, CUdevice device) \
  F(cuDeviceTotalMem_v2, std::size_t* bytes, CUdevice device) \
  F(cuDevicePrimaryCtxRetain, CUcontext* context, CUdevice device) \
  F(cuDevicePrimaryCtxRelease_v2, CUdevice device) \
  F(cuCtxGetCurrent, CUcontext* context) \
  F(cuCtxPushCurrent_v2, CUcontext context) \
  F(cuCtxPopCurrent_v2, CUcontext* context) \
  F(cuCtxGetStreamPriorityRange, int* least, int* greatest) \
  F(cuMemGetInfo_v2, std::size_t* free_bytes, std::size_t* total_bytes) \
  F(cuMemAlloc_v2, CUdeviceptr* address, std::size_t bytes) \
  F(cuMemFree_v2, CUdeviceptr address) \
  F(cuMemHostRegister_v2, void* memory, std::size_t bytes, unsigned flags) \
  F(cuMemHostUnregister, void* memory) \
  F(cuMemHostGetDevicePointer_v2, CUdeviceptr* address, void* memory, unsigned flags) \
  F(cuMemcpyHtoDAsync_v2, CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) \
  F(cuMemcpyDtoHAsync_v2, void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) \
  F(cuMemcpyDtoDAsync_v2, CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) \
  F(cuMemsetD8Async, CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) \
  F(cuMemsetD32Async, CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) \
  F(cuPointerGetAttribute, void* value, CUpointer_attribute which, CUdeviceptr address) \
  F(cuTensorMapEncodeTiled, CUtensorMap* map, CUtensorMapDataType type, std::uint32_t rank, void* data, \
    const std::uint64_t* sizes, const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* steps, \
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, \
    CUtensorMapFloatOOBfill fill) \
  F(cuLaunchHostFunc, CUstream stream, void (*function)(void* data), void* data) \
  F(cuStreamQuery, CUstream stream) \
  F(cuStreamCreate, CUstream* stream, unsigned flags) \
  F(cuStreamCreateWithPriority, CUstream* stream, unsigned flags, int priority) \
  F(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned flags) \
  F(cuStreamBeginCapture_v2, CUstream stream, CUstreamCaptureMode mode) \
  F(cuStreamEndCapture, CUstream stream, CUgraph* graph) \
  F(cuStreamIsCapturing, CUstream stream, CUstreamCaptureStatus* status) \
  F(cuEventCreate, CUevent* event, unsigned flags) \
  F(cuEventDestroy_v2, CUevent event) \
  F(cuEventQuery, CUevent event) \
  F(cuEventRecordWithFlags, CUevent event, CUstream stream, unsigned flags) \
  F(cuEventElapsedTime, float* ms, CUevent start, CUevent stop) \
  F(cuModuleLoadData, CUmodule* module, const void* image) \
  F(cuModuleUnload, CUmodule module) \
  F(cuModuleGetFunction, CUfunction* function, CUmodule module, const char* name) \
  F(cuFuncSetAttribute, CUfunction function, CUfunction_attribute which, int value) \
  F(cuLaunchKernel, CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
    unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters, void** extra) \
  F(cuLaunchKernelEx, const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) \
  F(cuLaunchCooperativeKernel, CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters) \
  F(cuGraphInstantiateWithFlags, CUgraphExec* runnable, CUgraph graph, unsigned long long flags) \
  F(cuGraphLaunch, CUgraphExec runnable, CUstream stream) \
  F(cuGraphDestroy, CUgraph graph) \
  F(cuGraphExecDestroy, CUgraphExec runnable) \
  F(cuGraphGetNodes, CUgraph graph, CUgraphNode* nodes, std::size_t* count) \
  F(cuGraphNodeGetType, CUgraphNode node, CUgraphNodeType* type) \
  F(cuGraphNodeGetDependencies_v2, CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges, std::size_t* count) \
  F(cuGraphNodeGetDependentNodes_v2, CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges, std::size_t* count) \
  F(cuGraphAddDependencies_v2, CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, \
    const CUgraphEdgeData* edges, std::size_t count) \
  F(cuGraphAddKernelNode_v2, CUgraphNode* node, CUgraph graph, const CUgraphNode* behind, std::size_t count, \
    const CUDA_KERNEL_NODE_PARAMS* parameters) \
  F(cuGraphKernelNodeSetAttribute, CUgraphNode node, CUlaunchAttributeID which, const CUlaunchAttributeValue* value) \
  F(cuGraphDestroyNode, CUgraphNode node) \
  F(cuGraphMemcpyNodeGetParams, CUgraphNode node, CUDA_MEMCPY3D* parameters) \
  F(cuGraphMemsetNodeGetParams, CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* parameters)
// clang-format on

// NOLINTEND(readability-identifier-naming)
}  // namespace ridgepoint::cuda
