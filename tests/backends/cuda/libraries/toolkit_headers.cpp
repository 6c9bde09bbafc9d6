// The engine's declarations of CUDA's interfaces are those of the toolkit: compiled only where its headers are.
#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <type_traits>

#include "backends/cuda/libraries/driver_api.h"
#include "backends/cuda/libraries/nvrtc.h"
#include "backends/cuda/products/choice/cublaslt.h"
#include "backends/cuda/products/choice/tiles.h"
#include "backends/cuda/profiling/cupti.h"
#include "backends/cuda/profiling/nvtx.h"
#include "support/program/build_paths.h"

namespace {
constexpr long long kDeviceMap = ridgepoint::cuda::CU_MEMHOSTREGISTER_DEVICEMAP;  // a macro of cuda.h
}

#include <cublasLt.h>
#include <cuda.h>
#include <cupti.h>
#include <nvrtc.h>
#include <nvtx3/nvToolsExt.h>

// Names that older toolkits than that of the engine's newest function lack.
#if CUDA_VERSION < 12080
constexpr int CUBLASLT_MATMUL_DESC_A_SCALE_MODE = 31, CUBLASLT_MATMUL_DESC_B_SCALE_MODE = 32;
#endif
#if CUDA_VERSION < 12090
constexpr int CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F = 3;
#endif

namespace ridgepoint {
namespace {

// The toolkit's type for one of the engine's, through pointers and functions.
template <typename Ours>
struct Theirs {
  using Type = Ours;
};
template <typename Ours>
struct Theirs<const Ours> {
  using Type = const typename Theirs<Ours>::Type;
};
template <typename Ours>
struct Theirs<Ours*> {
  using Type = typename Theirs<Ours>::Type*;
};
template <typename Result, typename... Parameters>
struct Theirs<Result(Parameters...)> {
  using Type = typename Theirs<Result>::Type(typename Theirs<Parameters>::Type...);
};

#define SAME_TYPE(ours, theirs) \
  template <>                   \
  struct Theirs<cuda::ours> {   \
    using Type = theirs;        \
  };                            \
  static_assert(sizeof(cuda::ours) <= sizeof(theirs))
#define SAME_NAME(name)    \
  SAME_TYPE(name, ::name); \
  static_assert(sizeof(cuda::name) == sizeof(::name))

// Handles.
SAME_NAME(CUcontext);
SAME_NAME(CUmodule);
SAME_NAME(CUfunction);
SAME_NAME(CUkernel);
SAME_NAME(CUarray);
SAME_NAME(CUstream);
SAME_NAME(CUevent);
SAME_NAME(CUgraph);
SAME_NAME(CUgraphNode);
SAME_NAME(CUgraphExec);
SAME_NAME(cublasLtHandle_t);
SAME_NAME(cublasLtMatmulDesc_t);
SAME_NAME(cublasLtMatrixLayout_t);
SAME_NAME(cublasLtMatmulPreference_t);
SAME_NAME(nvrtcProgram);
SAME_NAME(CUpti_SubscriberHandle);
SAME_NAME(nvtxDomainHandle_t);
SAME_NAME(nvtxStringHandle_t);
// Numbers.
static_assert(std::is_same_v<cuda::CUdevice, ::CUdevice>);
static_assert(std::is_same_v<cuda::CUdeviceptr, ::CUdeviceptr>);
static_assert(std::is_same_v<cuda::CUpti_CallbackId, ::CUpti_CallbackId>);
// Enumerations.
SAME_NAME(CUresult);
SAME_NAME(CUdevice_attribute);
SAME_NAME(CUfunction_attribute);
SAME_NAME(CUpointer_attribute);
SAME_NAME(CUmemorytype);
SAME_NAME(CUstreamCaptureMode);
SAME_NAME(CUstreamCaptureStatus);
SAME_NAME(CUgraphNodeType);
SAME_NAME(CUlaunchAttributeID);
SAME_NAME(CUtensorMapDataType);
SAME_NAME(CUtensorMapInterleave);
SAME_NAME(CUtensorMapSwizzle);
SAME_NAME(CUtensorMapL2promotion);
SAME_NAME(CUtensorMapFloatOOBfill);
SAME_NAME(cublasStatus_t);
SAME_NAME(cublasOperation_t);
SAME_NAME(cublasComputeType_t);
SAME_NAME(cudaDataType_t);
SAME_NAME(cublasLtMatmulDescAttributes_t);
SAME_NAME(cublasLtMatrixLayoutAttribute_t);
SAME_NAME(cublasLtMatmulPreferenceAttributes_t);
SAME_NAME(cublasLtMatmulAlgoCapAttributes_t);
SAME_NAME(cublasLtMatmulAlgoConfigAttributes_t);
SAME_NAME(cublasLtReductionScheme_t);
SAME_NAME(nvrtcResult);
SAME_NAME(CUptiResult);
SAME_NAME(CUpti_ActivityKind);
SAME_NAME(CUpti_ActivityMemcpyKind);
SAME_NAME(CUpti_ExternalCorrelationKind);
SAME_NAME(CUpti_CallbackDomain);
SAME_NAME(NvtxCallbackModule);
// Structures; of those that are only read through pointers, the beginning.
SAME_NAME(CUtensorMap);
SAME_NAME(CUlaunchAttributeValue);
SAME_NAME(CUlaunchAttribute);
SAME_NAME(CUlaunchConfig);
SAME_NAME(CUgraphEdgeData);
SAME_TYPE(CUDA_KERNEL_NODE_PARAMS, ::CUDA_KERNEL_NODE_PARAMS_v2);
SAME_TYPE(CUDA_MEMSET_NODE_PARAMS, ::CUDA_MEMSET_NODE_PARAMS_v1);
SAME_TYPE(CUDA_MEMCPY3D, ::CUDA_MEMCPY3D_v2);
SAME_NAME(cublasLtMatmulAlgo_t);
SAME_NAME(cublasLtMatmulHeuristicResult_t);
SAME_TYPE(CUpti_Activity, ::CUpti_Activity);
SAME_TYPE(CUpti_ActivityKernel9, ::CUpti_ActivityKernel9);
SAME_TYPE(CUpti_ActivityMemcpy5, ::CUpti_ActivityMemcpy5);
SAME_TYPE(CUpti_ActivityMemcpyPtoP4, ::CUpti_ActivityMemcpyPtoP4);
SAME_TYPE(CUpti_ActivityMemset4, ::CUpti_ActivityMemset4);
SAME_NAME(CUpti_ActivityAPI);
SAME_NAME(CUpti_ActivityExternalCorrelation);
SAME_NAME(CUpti_ResourceData);
SAME_NAME(CUpti_GraphData);
SAME_NAME(nvtxEventAttributes_t);
SAME_NAME(NvtxExportTableCallbacks);
SAME_NAME(NvtxExportTableVersionInfo);
static_assert(alignof(cuda::CUtensorMap) >= alignof(::CUtensorMap));
static_assert(sizeof(cuda::CUDA_KERNEL_NODE_PARAMS) == sizeof(::CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(sizeof(cuda::CUDA_MEMSET_NODE_PARAMS) == sizeof(::CUDA_MEMSET_NODE_PARAMS_v1));
static_assert(sizeof(cuda::CUDA_MEMCPY3D) == sizeof(::CUDA_MEMCPY3D_v2));
static_assert(cuda::kNvtxVersion == NVTX_VERSION);

// Functions.
#define SAME_FUNCTION(result, name, ...) \
  static_assert(std::is_same_v<Theirs<result(__VA_ARGS__)>::Type, decltype(::name)>, #name);
#define SAME_DRIVER_FUNCTION(name, ...) SAME_FUNCTION(cuda::CUresult, name, __VA_ARGS__)
#define SAME_CUPTI_FUNCTION(name, ...) SAME_FUNCTION(cuda::CUptiResult, name, __VA_ARGS__)
}  // namespace
namespace cuda {
namespace {
RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(SAME_DRIVER_FUNCTION)
RIDGEPOINT_CUBLASLT_FUNCTIONS(SAME_FUNCTION)
RIDGEPOINT_NVRTC_FUNCTIONS(SAME_FUNCTION)
RIDGEPOINT_CUPTI_FUNCTIONS(SAME_CUPTI_FUNCTION)
}  // namespace
}  // namespace cuda
namespace {
static_assert(std::is_same_v<Theirs<cuda::CUpti_CallbackFunc>::Type, ::CUpti_CallbackFunc>);
static_assert(std::is_same_v<Theirs<cuda::CUpti_BuffersCallbackRequestFunc>::Type, ::CUpti_BuffersCallbackRequestFunc>);
static_assert(
    std::is_same_v<Theirs<cuda::CUpti_BuffersCallbackCompleteFunc>::Type, ::CUpti_BuffersCallbackCompleteFunc>);
static_assert(std::is_same_v<Theirs<cuda::NvtxFunctionTable>::Type, ::NvtxFunctionTable>);
static_assert(std::is_same_v<Theirs<cuda::NvtxGetExportTableFunc_t>::Type, ::NvtxGetExportTableFunc_t>);
static_assert(
    std::is_same_v<Theirs<cuda::NvtxInitializeInjectionNvtxFunc_t>::Type, ::NvtxInitializeInjectionNvtxFunc_t>);
static_assert(std::is_same_v<Theirs<decltype(cuda::Nvtx::domain_create)>::Type, decltype(&::nvtxDomainCreateA)>);
static_assert(std::is_same_v<Theirs<decltype(cuda::Nvtx::push)>::Type, decltype(&::nvtxDomainRangePushEx)>);
static_assert(std::is_same_v<Theirs<decltype(cuda::Nvtx::pop)>::Type, decltype(&::nvtxDomainRangePop)>);
static_assert(
    std::is_same_v<Theirs<decltype(cuda::Nvtx::register_string)>::Type, decltype(&::nvtxDomainRegisterStringA)>);

// Fields.
// NOLINTBEGIN(bugprone-sizeof-expression): of pointers too
#define SAME_FIELD(name, field)                                                                               \
  static_assert(offsetof(cuda::name, field) == offsetof(Theirs<cuda::name>::Type, field), #name "::" #field); \
  static_assert(sizeof(cuda::name::field) == sizeof(Theirs<cuda::name>::Type::field), #name "::" #field)
SAME_FIELD(CUtensorMap, opaque);
SAME_FIELD(CUlaunchAttribute, id);
SAME_FIELD(CUlaunchAttribute, pad);
SAME_FIELD(CUlaunchAttribute, value);
SAME_FIELD(CUlaunchConfig, gridDimX);
SAME_FIELD(CUlaunchConfig, gridDimY);
SAME_FIELD(CUlaunchConfig, gridDimZ);
SAME_FIELD(CUlaunchConfig, blockDimX);
SAME_FIELD(CUlaunchConfig, blockDimY);
SAME_FIELD(CUlaunchConfig, blockDimZ);
SAME_FIELD(CUlaunchConfig, sharedMemBytes);
SAME_FIELD(CUlaunchConfig, hStream);
SAME_FIELD(CUlaunchConfig, attrs);
SAME_FIELD(CUlaunchConfig, numAttrs);
SAME_FIELD(CUgraphEdgeData, from_port);
SAME_FIELD(CUgraphEdgeData, to_port);
SAME_FIELD(CUgraphEdgeData, type);
SAME_FIELD(CUgraphEdgeData, reserved);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, func);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimX);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimY);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimZ);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimX);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimY);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimZ);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, kernelParams);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, extra);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, kern);
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, ctx);
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, dst);
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, pitch);
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, value);
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, elementSize);
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, width);
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, height);
SAME_FIELD(CUDA_MEMCPY3D, srcXInBytes);
SAME_FIELD(CUDA_MEMCPY3D, srcY);
SAME_FIELD(CUDA_MEMCPY3D, srcZ);
SAME_FIELD(CUDA_MEMCPY3D, srcLOD);
SAME_FIELD(CUDA_MEMCPY3D, srcMemoryType);
SAME_FIELD(CUDA_MEMCPY3D, srcHost);
SAME_FIELD(CUDA_MEMCPY3D, srcDevice);
SAME_FIELD(CUDA_MEMCPY3D, srcArray);
SAME_FIELD(CUDA_MEMCPY3D, reserved0);
SAME_FIELD(CUDA_MEMCPY3D, srcPitch);
SAME_FIELD(CUDA_MEMCPY3D, srcHeight);
SAME_FIELD(CUDA_MEMCPY3D, dstXInBytes);
SAME_FIELD(CUDA_MEMCPY3D, dstY);
SAME_FIELD(CUDA_MEMCPY3D, dstZ);
SAME_FIELD(CUDA_MEMCPY3D, dstLOD);
SAME_FIELD(CUDA_MEMCPY3D, dstMemoryType);
SAME_FIELD(CUDA_MEMCPY3D, dstHost);
SAME_FIELD(CUDA_MEMCPY3D, dstDevice);
SAME_FIELD(CUDA_MEMCPY3D, dstArray);
SAME_FIELD(CUDA_MEMCPY3D, reserved1);
SAME_FIELD(CUDA_MEMCPY3D, dstPitch);
SAME_FIELD(CUDA_MEMCPY3D, dstHeight);
SAME_FIELD(CUDA_MEMCPY3D, WidthInBytes);
SAME_FIELD(CUDA_MEMCPY3D, Height);
SAME_FIELD(CUDA_MEMCPY3D, Depth);
SAME_FIELD(cublasLtMatmulAlgo_t, data);
SAME_FIELD(cublasLtMatmulHeuristicResult_t, algo);
SAME_FIELD(cublasLtMatmulHeuristicResult_t, workspaceSize);
SAME_FIELD(cublasLtMatmulHeuristicResult_t, state);
SAME_FIELD(cublasLtMatmulHeuristicResult_t, wavesCount);
SAME_FIELD(cublasLtMatmulHeuristicResult_t, reserved);
SAME_FIELD(CUpti_Activity, kind);
SAME_FIELD(CUpti_ActivityKernel9, kind);
SAME_FIELD(CUpti_ActivityKernel9, cacheConfig);
SAME_FIELD(CUpti_ActivityKernel9, sharedMemoryConfig);
SAME_FIELD(CUpti_ActivityKernel9, registersPerThread);
SAME_FIELD(CUpti_ActivityKernel9, partitionedGlobalCacheRequested);
SAME_FIELD(CUpti_ActivityKernel9, partitionedGlobalCacheExecuted);
SAME_FIELD(CUpti_ActivityKernel9, start);
SAME_FIELD(CUpti_ActivityKernel9, end);
SAME_FIELD(CUpti_ActivityKernel9, completed);
SAME_FIELD(CUpti_ActivityKernel9, deviceId);
SAME_FIELD(CUpti_ActivityKernel9, contextId);
SAME_FIELD(CUpti_ActivityKernel9, streamId);
SAME_FIELD(CUpti_ActivityKernel9, gridX);
SAME_FIELD(CUpti_ActivityKernel9, gridY);
SAME_FIELD(CUpti_ActivityKernel9, gridZ);
SAME_FIELD(CUpti_ActivityKernel9, blockX);
SAME_FIELD(CUpti_ActivityKernel9, blockY);
SAME_FIELD(CUpti_ActivityKernel9, blockZ);
SAME_FIELD(CUpti_ActivityKernel9, staticSharedMemory);
SAME_FIELD(CUpti_ActivityKernel9, dynamicSharedMemory);
SAME_FIELD(CUpti_ActivityKernel9, localMemoryPerThread);
SAME_FIELD(CUpti_ActivityKernel9, localMemoryTotal);
SAME_FIELD(CUpti_ActivityKernel9, correlationId);
SAME_FIELD(CUpti_ActivityKernel9, gridId);
SAME_FIELD(CUpti_ActivityKernel9, name);
SAME_FIELD(CUpti_ActivityKernel9, reserved0);
SAME_FIELD(CUpti_ActivityKernel9, queued);
SAME_FIELD(CUpti_ActivityKernel9, submitted);
SAME_FIELD(CUpti_ActivityKernel9, launchType);
SAME_FIELD(CUpti_ActivityKernel9, isSharedMemoryCarveoutRequested);
SAME_FIELD(CUpti_ActivityKernel9, sharedMemoryCarveoutRequested);
SAME_FIELD(CUpti_ActivityKernel9, padding);
SAME_FIELD(CUpti_ActivityKernel9, sharedMemoryExecuted);
SAME_FIELD(CUpti_ActivityKernel9, graphNodeId);
SAME_FIELD(CUpti_ActivityMemcpy5, kind);
SAME_FIELD(CUpti_ActivityMemcpy5, copyKind);
SAME_FIELD(CUpti_ActivityMemcpy5, srcKind);
SAME_FIELD(CUpti_ActivityMemcpy5, dstKind);
SAME_FIELD(CUpti_ActivityMemcpy5, flags);
SAME_FIELD(CUpti_ActivityMemcpy5, bytes);
SAME_FIELD(CUpti_ActivityMemcpy5, start);
SAME_FIELD(CUpti_ActivityMemcpy5, end);
SAME_FIELD(CUpti_ActivityMemcpy5, deviceId);
SAME_FIELD(CUpti_ActivityMemcpy5, contextId);
SAME_FIELD(CUpti_ActivityMemcpy5, streamId);
SAME_FIELD(CUpti_ActivityMemcpy5, correlationId);
SAME_FIELD(CUpti_ActivityMemcpy5, runtimeCorrelationId);
SAME_FIELD(CUpti_ActivityMemcpy5, pad);
SAME_FIELD(CUpti_ActivityMemcpy5, reserved0);
SAME_FIELD(CUpti_ActivityMemcpy5, graphNodeId);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, kind);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, copyKind);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, srcKind);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, dstKind);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, flags);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, bytes);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, start);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, end);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, deviceId);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, contextId);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, streamId);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, srcContextId);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, dstDeviceId);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, dstContextId);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, correlationId);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, reserved0);
SAME_FIELD(CUpti_ActivityMemcpyPtoP4, graphNodeId);
SAME_FIELD(CUpti_ActivityMemset4, kind);
SAME_FIELD(CUpti_ActivityMemset4, value);
SAME_FIELD(CUpti_ActivityMemset4, bytes);
SAME_FIELD(CUpti_ActivityMemset4, start);
SAME_FIELD(CUpti_ActivityMemset4, end);
SAME_FIELD(CUpti_ActivityMemset4, deviceId);
SAME_FIELD(CUpti_ActivityMemset4, contextId);
SAME_FIELD(CUpti_ActivityMemset4, streamId);
SAME_FIELD(CUpti_ActivityMemset4, correlationId);
SAME_FIELD(CUpti_ActivityMemset4, flags);
SAME_FIELD(CUpti_ActivityMemset4, memoryKind);
SAME_FIELD(CUpti_ActivityMemset4, pad);
SAME_FIELD(CUpti_ActivityMemset4, reserved0);
SAME_FIELD(CUpti_ActivityMemset4, graphNodeId);
SAME_FIELD(CUpti_ActivityAPI, kind);
SAME_FIELD(CUpti_ActivityAPI, cbid);
SAME_FIELD(CUpti_ActivityAPI, start);
SAME_FIELD(CUpti_ActivityAPI, end);
SAME_FIELD(CUpti_ActivityAPI, processId);
SAME_FIELD(CUpti_ActivityAPI, threadId);
SAME_FIELD(CUpti_ActivityAPI, correlationId);
SAME_FIELD(CUpti_ActivityAPI, returnValue);
SAME_FIELD(CUpti_ActivityExternalCorrelation, kind);
SAME_FIELD(CUpti_ActivityExternalCorrelation, externalKind);
SAME_FIELD(CUpti_ActivityExternalCorrelation, externalId);
SAME_FIELD(CUpti_ActivityExternalCorrelation, correlationId);
SAME_FIELD(CUpti_ActivityExternalCorrelation, reserved);
SAME_FIELD(CUpti_ResourceData, context);
SAME_FIELD(CUpti_ResourceData, resourceHandle);
SAME_FIELD(CUpti_ResourceData, resourceDescriptor);
SAME_FIELD(CUpti_GraphData, graph);
SAME_FIELD(CUpti_GraphData, originalGraph);
SAME_FIELD(CUpti_GraphData, node);
SAME_FIELD(CUpti_GraphData, originalNode);
SAME_FIELD(CUpti_GraphData, nodeType);
SAME_FIELD(CUpti_GraphData, dependency);
SAME_FIELD(CUpti_GraphData, graphExec);
SAME_FIELD(nvtxEventAttributes_t, version);
SAME_FIELD(nvtxEventAttributes_t, size);
SAME_FIELD(nvtxEventAttributes_t, category);
SAME_FIELD(nvtxEventAttributes_t, colorType);
SAME_FIELD(nvtxEventAttributes_t, color);
SAME_FIELD(nvtxEventAttributes_t, payloadType);
SAME_FIELD(nvtxEventAttributes_t, reserved0);
SAME_FIELD(nvtxEventAttributes_t, payload);
SAME_FIELD(nvtxEventAttributes_t, messageType);
SAME_FIELD(nvtxEventAttributes_t, message);
SAME_FIELD(NvtxExportTableCallbacks, struct_size);
SAME_FIELD(NvtxExportTableCallbacks, GetModuleFunctionTable);
SAME_FIELD(NvtxExportTableVersionInfo, struct_size);
SAME_FIELD(NvtxExportTableVersionInfo, version);
SAME_FIELD(NvtxExportTableVersionInfo, reserved0);
SAME_FIELD(NvtxExportTableVersionInfo, SetInjectionNvtxVersion);
// NOLINTEND(bugprone-sizeof-expression)

// Values.
struct Value {
  const char* name;
  long long ours;
  long long theirs;
};
#define VALUE(name) \
  Value { #name, static_cast < long long>(cuda::name), static_cast < long long>(::name) }
const Value kValues[] = {
    VALUE(CUDA_SUCCESS),
    VALUE(CUDA_ERROR_INVALID_VALUE),
    VALUE(CUDA_ERROR_OUT_OF_MEMORY),
    VALUE(CUDA_ERROR_DEVICE_UNAVAILABLE),
    VALUE(CUDA_ERROR_NO_DEVICE),
    VALUE(CUDA_ERROR_INVALID_IMAGE),
    VALUE(CUDA_ERROR_INVALID_CONTEXT),
    VALUE(CUDA_ERROR_NO_BINARY_FOR_GPU),
    VALUE(CUDA_ERROR_INVALID_PTX),
    VALUE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
    VALUE(CUDA_ERROR_INVALID_SOURCE),
    VALUE(CUDA_ERROR_INVALID_HANDLE),
    VALUE(CUDA_ERROR_NOT_READY),
    VALUE(CUDA_ERROR_ILLEGAL_ADDRESS),
    VALUE(CUDA_ERROR_ASSERT),
    VALUE(CUDA_ERROR_ILLEGAL_INSTRUCTION),
    VALUE(CUDA_ERROR_MISALIGNED_ADDRESS),
    VALUE(CUDA_ERROR_LAUNCH_FAILED),
    VALUE(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE),
    VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    VALUE(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
    VALUE(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
    VALUE(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
    VALUE(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
    VALUE(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
    VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
    VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    VALUE(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    VALUE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
    VALUE(CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
    VALUE(CU_MEMORYTYPE_DEVICE),
    VALUE(CU_MEMORYTYPE_UNIFIED),
    VALUE(CU_STREAM_CAPTURE_MODE_RELAXED),
    VALUE(CU_STREAM_CAPTURE_STATUS_NONE),
    VALUE(CU_STREAM_CAPTURE_STATUS_ACTIVE),
    VALUE(CU_GRAPH_NODE_TYPE_KERNEL),
    VALUE(CU_GRAPH_NODE_TYPE_MEMCPY),
    VALUE(CU_GRAPH_NODE_TYPE_MEMSET),
    VALUE(CU_GRAPH_NODE_TYPE_EVENT_RECORD),
    VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION),
    VALUE(CU_LAUNCH_ATTRIBUTE_PRIORITY),
    VALUE(CU_TENSOR_MAP_DATA_TYPE_FLOAT16),
    VALUE(CU_TENSOR_MAP_DATA_TYPE_FLOAT32),
    VALUE(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
    VALUE(CU_TENSOR_MAP_INTERLEAVE_NONE),
    VALUE(CU_TENSOR_MAP_SWIZZLE_32B),
    VALUE(CU_TENSOR_MAP_SWIZZLE_64B),
    VALUE(CU_TENSOR_MAP_SWIZZLE_128B),
    VALUE(CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
    VALUE(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    VALUE(CU_STREAM_NON_BLOCKING),
    VALUE(CU_EVENT_DEFAULT),
    VALUE(CU_EVENT_DISABLE_TIMING),
    VALUE(CU_EVENT_RECORD_DEFAULT),
    VALUE(CU_EVENT_RECORD_EXTERNAL),
    VALUE(CU_EVENT_WAIT_DEFAULT),
    VALUE(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
    {"CU_MEMHOSTREGISTER_DEVICEMAP", kDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP},
    VALUE(CUBLAS_STATUS_SUCCESS),
    VALUE(CUBLAS_STATUS_INVALID_VALUE),
    VALUE(CUBLAS_STATUS_NOT_SUPPORTED),
    VALUE(CUBLAS_OP_N),
    VALUE(CUBLAS_OP_T),
    VALUE(CUBLAS_COMPUTE_32F),
    VALUE(CUBLAS_COMPUTE_64F),
    VALUE(CUBLAS_COMPUTE_32F_FAST_TF32),
    VALUE(CUDA_R_32F),
    VALUE(CUDA_R_64F),
    VALUE(CUDA_R_16F),
    VALUE(CUDA_R_16BF),
    VALUE(CUDA_R_8F_E4M3),
    VALUE(CUDA_R_8F_E5M2),
    VALUE(CUBLASLT_MATMUL_DESC_TRANSA),
    VALUE(CUBLASLT_MATMUL_DESC_TRANSB),
    VALUE(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER),
    VALUE(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER),
    VALUE(CUBLASLT_MATMUL_DESC_FAST_ACCUM),
    VALUE(CUBLASLT_MATMUL_DESC_A_SCALE_MODE),
    VALUE(CUBLASLT_MATMUL_DESC_B_SCALE_MODE),
    VALUE(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F),
    VALUE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT),
    VALUE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
    VALUE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
    VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
    VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
    VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
    VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES),
    VALUE(CUBLASLT_ALGO_CAP_TILE_IDS),
    VALUE(CUBLASLT_ALGO_CONFIG_ID),
    VALUE(CUBLASLT_ALGO_CONFIG_TILE_ID),
    VALUE(CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
    VALUE(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
    VALUE(CUBLASLT_ALGO_CONFIG_STAGES_ID),
    VALUE(CUBLASLT_REDUCTION_SCHEME_NONE),
    VALUE(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE),
    VALUE(NVRTC_SUCCESS),
    VALUE(NVRTC_ERROR_COMPILATION),
    VALUE(CUPTI_SUCCESS),
    VALUE(CUPTI_ERROR_INVALID_PARAMETER),
    VALUE(CUPTI_ERROR_INVALID_OPERATION),
    VALUE(CUPTI_ERROR_OUT_OF_MEMORY),
    VALUE(CUPTI_ERROR_MAX_LIMIT_REACHED),
    VALUE(CUPTI_ERROR_NOT_COMPATIBLE),
    VALUE(CUPTI_ERROR_NOT_INITIALIZED),
    VALUE(CUPTI_ERROR_QUEUE_EMPTY),
    VALUE(CUPTI_ERROR_DISABLED),
    VALUE(CUPTI_ERROR_HARDWARE_BUSY),
    VALUE(CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED),
    VALUE(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES),
    VALUE(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED),
    VALUE(CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES),
    VALUE(CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED),
    VALUE(CUPTI_ACTIVITY_KIND_MEMCPY),
    VALUE(CUPTI_ACTIVITY_KIND_MEMSET),
    VALUE(CUPTI_ACTIVITY_KIND_KERNEL),
    VALUE(CUPTI_ACTIVITY_KIND_DRIVER),
    VALUE(CUPTI_ACTIVITY_KIND_RUNTIME),
    VALUE(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
    VALUE(CUPTI_ACTIVITY_KIND_MEMCPY2),
    VALUE(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION),
    VALUE(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD),
    VALUE(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH),
    VALUE(CUPTI_ACTIVITY_MEMCPY_KIND_DTOD),
    VALUE(CUPTI_ACTIVITY_MEMCPY_KIND_PTOP),
    VALUE(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED),
    VALUE(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0),
    VALUE(CUPTI_CB_DOMAIN_RESOURCE),
    VALUE(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED),
    VALUE(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED),
    VALUE(NVTX_MESSAGE_TYPE_REGISTERED),
    VALUE(NVTX_CB_MODULE_CORE),
    VALUE(NVTX_CB_MODULE_CUDA),
    VALUE(NVTX_CB_MODULE_OPENCL),
    VALUE(NVTX_CB_MODULE_CUDART),
    VALUE(NVTX_CB_MODULE_CORE2),
    VALUE(NVTX_CB_MODULE_SYNC),
    VALUE(NVTX_CBID_CORE2_DomainRangePushEx),
    VALUE(NVTX_CBID_CORE2_DomainRangePop),
    VALUE(NVTX_CBID_CORE2_DomainRegisterStringA),
    VALUE(NVTX_CBID_CORE2_DomainCreateA),
    VALUE(NVTX_ETID_CALLBACKS),
    VALUE(NVTX_ETID_VERSIONINFO),
};

TEST(ToolkitHeaders, have_the_same_values) {
  for (const Value& value : kValues) EXPECT_EQ(value.ours, value.theirs) << value.name;
}

TEST(ToolkitHeaders, are_compared_in_every_value_that_the_engine_declares) {
  std::set<std::string> compared;
  for (const Value& value : kValues) compared.insert(value.name);
  std::set<std::string> declared;
  const std::regex declaration("\\b((CUDA|CU|CUBLAS|CUBLASLT|CUPTI|NVRTC|NVTX)_\\w+) = [0-9]");
  for (const char* file : {"libraries/driver_api.h", "products/choice/cublaslt.h", "libraries/nvrtc.h",
                           "profiling/cupti.h", "profiling/nvtx.h"}) {
    std::ifstream text(source_folder() / "src/backends/cuda" / file);
    EXPECT_TRUE(text.is_open()) << file;
    for (std::string line; std::getline(text, line);) {
      for (std::sregex_iterator match(line.begin(), line.end(), declaration), end; match != end; ++match)
        declared.insert((*match)[1]);
    }
  }
  EXPECT_EQ(compared, declared);
}

TEST(ToolkitHeaders, list_the_tiles_of_products) {
  const std::regex declaration("CUBLASLT_MATMUL_TILE_([0-9]+)x([0-9]+) = ([0-9]+)");
  std::ifstream text(RIDGEPOINT_CUBLASLT_HEADER);
  ASSERT_TRUE(text.is_open());
  int tiles = 0;
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, declaration)) continue;
    ++tiles;
    const std::optional<cuda::LtTile> tile = cuda::lt_tile(static_cast<std::uint32_t>(std::stoul(match[3])));
    ASSERT_TRUE(tile) << line;
    EXPECT_EQ(*tile, (cuda::LtTile{std::stoi(match[1]), std::stoi(match[2])})) << line;
  }
  EXPECT_GT(tiles, 30);  // CUDA 12 has fewer than 13
}

}  // namespace
}  // namespace ridgepoint
