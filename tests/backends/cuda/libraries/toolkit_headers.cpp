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

// Fields: SAME_FIELDS(structure, field, ...) is SAME_FIELD(structure, field) for each of up to 81.
// NOLINTBEGIN(bugprone-sizeof-expression): of pointers too
#define SAME_FIELD(name, field)                                                                               \
  static_assert(offsetof(cuda::name, field) == offsetof(Theirs<cuda::name>::Type, field), #name "::" #field); \
  static_assert(sizeof(cuda::name::field) == sizeof(Theirs<cuda::name>::Type::field), #name "::" #field)
#define EXPANDED(...) EXPANDED_27(EXPANDED_27(EXPANDED_27(__VA_ARGS__)))
#define EXPANDED_27(...) EXPANDED_9(EXPANDED_9(EXPANDED_9(__VA_ARGS__)))
#define EXPANDED_9(...) EXPANDED_3(EXPANDED_3(EXPANDED_3(__VA_ARGS__)))
#define EXPANDED_3(...) __VA_ARGS__
#define NOTHING
#define NEXT_FIELD() FIRST_FIELD
#define FIRST_FIELD(name, field, ...) \
  SAME_FIELD(name, field);            \
  __VA_OPT__(NEXT_FIELD NOTHING()(name, __VA_ARGS__))
#define SAME_FIELDS(name, ...) EXPANDED(FIRST_FIELD(name, __VA_ARGS__))
SAME_FIELDS(CUtensorMap, opaque)
SAME_FIELDS(CUlaunchAttribute, id, pad, value)
SAME_FIELDS(CUlaunchConfig, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
            attrs, numAttrs)
SAME_FIELDS(CUgraphEdgeData, from_port, to_port, type, reserved)
SAME_FIELDS(CUDA_KERNEL_NODE_PARAMS, func, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
            sharedMemBytes, kernelParams, extra, kern, ctx)
SAME_FIELDS(CUDA_MEMSET_NODE_PARAMS, dst, pitch, value, elementSize, width, height)
SAME_FIELDS(CUDA_MEMCPY3D, srcXInBytes, srcY, srcZ, srcLOD, srcMemoryType, srcHost, srcDevice, srcArray, reserved0,
            srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD, dstMemoryType, dstHost, dstDevice, dstArray,
            reserved1, dstPitch, dstHeight, WidthInBytes, Height, Depth)
SAME_FIELDS(cublasLtMatmulAlgo_t, data)
SAME_FIELDS(cublasLtMatmulHeuristicResult_t, algo, workspaceSize, state, wavesCount, reserved)
SAME_FIELDS(CUpti_Activity, kind)
SAME_FIELDS(CUpti_ActivityKernel9, kind, cacheConfig, sharedMemoryConfig, registersPerThread,
            partitionedGlobalCacheRequested, partitionedGlobalCacheExecuted, start, end, completed, deviceId, contextId,
            streamId, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory,
            localMemoryPerThread, localMemoryTotal, correlationId, gridId, name, reserved0, queued, submitted,
            launchType, isSharedMemoryCarveoutRequested, sharedMemoryCarveoutRequested, padding, sharedMemoryExecuted,
            graphNodeId)
SAME_FIELDS(CUpti_ActivityMemcpy5, kind, copyKind, srcKind, dstKind, flags, bytes, start, end, deviceId, contextId,
            streamId, correlationId, runtimeCorrelationId, pad, reserved0, graphNodeId)
SAME_FIELDS(CUpti_ActivityMemcpyPtoP4, kind, copyKind, srcKind, dstKind, flags, bytes, start, end, deviceId, contextId,
            streamId, srcDeviceId, srcContextId, dstDeviceId, dstContextId, correlationId, reserved0, graphNodeId)
SAME_FIELDS(CUpti_ActivityMemset4, kind, value, bytes, start, end, deviceId, contextId, streamId, correlationId, flags,
            memoryKind, pad, reserved0, graphNodeId)
SAME_FIELDS(CUpti_ActivityAPI, kind, cbid, start, end, processId, threadId, correlationId, returnValue)
SAME_FIELDS(CUpti_ActivityExternalCorrelation, kind, externalKind, externalId, correlationId, reserved)
SAME_FIELDS(CUpti_ResourceData, context, resourceHandle, resourceDescriptor)
SAME_FIELDS(CUpti_GraphData, graph, originalGraph, node, originalNode, nodeType, dependency, graphExec)
SAME_FIELDS(nvtxEventAttributes_t, version, size, category, colorType, color, payloadType, reserved0, payload,
            messageType, message)
SAME_FIELDS(NvtxExportTableCallbacks, struct_size, GetModuleFunctionTable)
SAME_FIELDS(NvtxExportTableVersionInfo, struct_size, version, reserved0, SetInjectionNvtxVersion)
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
