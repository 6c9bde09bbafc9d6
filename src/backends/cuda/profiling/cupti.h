// CUPTI, NVIDIA's profiling library, as a table of functions, loaded at run time like the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/cuda/libraries/driver_api.h"

namespace ridgepoint::cuda {

// The part of CUPTI's interface that the engine calls, as driver_api.h has the driver's: names, values and layouts of
// cupti.h since CUDA 12.4. Records are only read through pointers, and newer toolkits add fields at their end, so each
// stands here up to the last field that is read.

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
enum CUptiResult : int {
  CUPTI_SUCCESS = 0,
  CUPTI_ERROR_INVALID_PARAMETER = 1,
  CUPTI_ERROR_INVALID_OPERATION = 7,
  CUPTI_ERROR_OUT_OF_MEMORY = 8,
  CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
  CUPTI_ERROR_NOT_COMPATIBLE = 14,
  CUPTI_ERROR_NOT_INITIALIZED = 15,
  CUPTI_ERROR_QUEUE_EMPTY = 18,
  CUPTI_ERROR_DISABLED = 23,
  CUPTI_ERROR_HARDWARE_BUSY = 26,
  CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED = 33,
  CUPTI_ERROR_INSUFFICIENT_PRIVILEGES = 35,
  CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
  CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES = 40,
  CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED = 41,
};
enum CUpti_ActivityKind : int {
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_KERNEL = 3,
  CUPTI_ACTIVITY_KIND_DRIVER = 4,
  CUPTI_ACTIVITY_KIND_RUNTIME = 5,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_ACTIVITY_KIND_MEMCPY2 = 22,
  CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 39,
};
enum CUpti_ActivityMemcpyKind : int {
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOD = 8,
  CUPTI_ACTIVITY_MEMCPY_KIND_PTOP = 10,
};
enum CUpti_ActivityFlag : std::uint32_t { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };
enum CUpti_ExternalCorrelationKind : int { CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 = 3 };
enum CUpti_CallbackDomain : int { CUPTI_CB_DOMAIN_RESOURCE = 3 };
enum CUpti_CallbackIdResource : int {
  CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED = 13,
  CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED = 20,
};

using CUpti_CallbackId = std::uint32_t;
using CUpti_SubscriberHandle = struct CUpti_Subscriber_st*;
using CUpti_CallbackFunc = void (*)(void* user_data, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                    const void* data);
using CUpti_BuffersCallbackRequestFunc = void (*)(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
using CUpti_BuffersCallbackCompleteFunc = void (*)(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                                   std::size_t size, std::size_t valid_bytes);

// The beginning of every record.
struct CUpti_Activity {
  CUpti_ActivityKind kind;
};
struct CUpti_ActivityKernel9 {
  CUpti_ActivityKind kind;
  std::uint8_t cacheConfig;
  std::uint8_t sharedMemoryConfig;
  std::uint16_t registersPerThread;
  std::uint32_t partitionedGlobalCacheRequested, partitionedGlobalCacheExecuted;
  std::uint64_t start, end, completed;
  std::uint32_t deviceId, contextId, streamId;
  std::int32_t gridX, gridY, gridZ;
  std::int32_t blockX, blockY, blockZ;
  std::int32_t staticSharedMemory, dynamicSharedMemory;
  std::uint32_t localMemoryPerThread, localMemoryTotal;
  std::uint32_t correlationId;
  std::int64_t gridId;
  const char* name;
  void* reserved0;
  std::uint64_t queued, submitted;
  std::uint8_t launchType;
  std::uint8_t isSharedMemoryCarveoutRequested, sharedMemoryCarveoutRequested;
  std::uint8_t padding;
  std::uint32_t sharedMemoryExecuted;
  std::uint64_t graphNodeId;
};
struct CUpti_ActivityMemcpy5 {
  CUpti_ActivityKind kind;
  std::uint8_t copyKind, srcKind, dstKind, flags;
  std::uint64_t bytes;
  std::uint64_t start, end;
  std::uint32_t deviceId, contextId, streamId;
  std::uint32_t correlationId, runtimeCorrelationId;
  std::uint32_t pad;
  void* reserved0;
  std::uint64_t graphNodeId;
};
struct CUpti_ActivityMemcpyPtoP4 {
  CUpti_ActivityKind kind;
  std::uint8_t copyKind, srcKind, dstKind, flags;
  std::uint64_t bytes;
  std::uint64_t start, end;
  std::uint32_t deviceId, contextId, streamId;
  std::uint32_t srcDeviceId, srcContextId, dstDeviceId, dstContextId;
  std::uint32_t correlationId;
  void* reserved0;
  std::uint64_t graphNodeId;
};
struct CUpti_ActivityMemset4 {
  CUpti_ActivityKind kind;
  std::uint32_t value;
  std::uint64_t bytes;
  std::uint64_t start, end;
  std::uint32_t deviceId, contextId, streamId;
  std::uint32_t correlationId;
  std::uint16_t flags, memoryKind;
  std::uint32_t pad;
  void* reserved0;
  std::uint64_t graphNodeId;
};
struct CUpti_ActivityAPI {
  CUpti_ActivityKind kind;
  CUpti_CallbackId cbid;
  std::uint64_t start, end;
  std::uint32_t processId, threadId;
  std::uint32_t correlationId;
  std::uint32_t returnValue;
};
struct CUpti_ActivityExternalCorrelation {
  CUpti_ActivityKind kind;
  CUpti_ExternalCorrelationKind externalKind;
  std::uint64_t externalId;
  std::uint32_t correlationId;
  std::uint32_t reserved;
};

// What a callback of the domain of resources is told, and with it of a graph node.
struct CUpti_ResourceData {
  CUcontext context;
  union {
    CUstream stream;
  } resourceHandle;
  void* resourceDescriptor;
};
struct CUpti_GraphData {
  CUgraph graph, originalGraph;
  CUgraphNode node, originalNode;
  CUgraphNodeType nodeType;
  CUgraphNode dependency;
  CUgraphExec graphExec;
};

// Every function with its parameters. The result is always a CUptiResult.
// clang-format off
#define RIDGEPOINT_CUPTI_FUNCTIONS(F) \
  F(cuptiGetResultString, CUptiResult result, const char** text) \
  F(cuptiGetTimestamp, std::uint64_t* timestamp) \
  F(cuptiSubscribe, CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user_data) \
  F(cuptiUnsubscribe, CUpti_SubscriberHandle subscriber) \
  F(cuptiEnableCallback, std::uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain, \
    CUpti_CallbackId id) \
  F(cuptiGetGraphNodeId, CUgraphNode node, std::uint64_t* id) \
  F(cuptiActivityRegisterCallbacks, CUpti_BuffersCallbackRequestFunc requested, \
    CUpti_BuffersCallbackCompleteFunc completed) \
  F(cuptiActivityEnable, CUpti_ActivityKind kind) \
  F(cuptiActivityDisable, CUpti_ActivityKind kind) \
  F(cuptiActivityFlushAll, std::uint32_t flags) \
  F(cuptiActivityGetNextRecord, std::uint8_t* buffer, std::size_t valid_bytes, CUpti_Activity** record) \
  F(cuptiActivityGetNumDroppedRecords, CUcontext context, std::uint32_t stream, std::size_t* count) \
  F(cuptiActivityPushExternalCorrelationId, CUpti_ExternalCorrelationKind kind, std::uint64_t id) \
  F(cuptiActivityPopExternalCorrelationId, CUpti_ExternalCorrelationKind kind, std::uint64_t* last_id)
// clang-format on

// NOLINTEND(readability-identifier-naming)
struct Cupti {
#define RIDGEPOINT_CUPTI_MEMBER(name, ...) CUptiResult (*name)(__VA_ARGS__) = nullptr;
  RIDGEPOINT_CUPTI_FUNCTIONS(RIDGEPOINT_CUPTI_MEMBER)
#undef RIDGEPOINT_CUPTI_MEMBER
};

// Throws Error (unsupported) that says whether the library or one of its functions is missing.
const Cupti& cupti();
// The same from another library file, loaded at every call.
Cupti open_cupti(std::string_view file);

// Throws Error with the failed action, the library's text and advice. `doing` completes "CUPTI could not ...".
[[noreturn]] void throw_cupti_error(const Cupti& table, CUptiResult result, const char* doing);
inline void check(const Cupti& table, CUptiResult result, const char* doing) {
  if (result != CUPTI_SUCCESS) [[unlikely]]
    throw_cupti_error(table, result, doing);
}

}  // namespace ridgepoint::cuda
