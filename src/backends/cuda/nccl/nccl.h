// NCCL (libnccl.so.2) as a table of functions, loaded at run time. Its header is no part of the CUDA toolkit, so the
// few declarations that the engine needs stand here; they have been the same in every release of NCCL 2.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string_view>

namespace ridgepoint::cuda {

struct NcclCommunicatorState;
using NcclHandle = NcclCommunicatorState*;  // ncclComm_t

struct NcclId {  // ncclUniqueId
  char bytes[128];
};

enum class NcclType : int { int8 = 0, fp16 = 6, fp32 = 7, fp64 = 8, bf16 = 9 };  // ncclDataType_t
enum class NcclSum : int { sum = 0 };                                            // ncclRedOp_t
enum class NcclStatus : int { success = 0, in_progress = 7 };                    // ncclResult_t

struct Nccl {
  NcclStatus (*ncclGetUniqueId)(NcclId* id) = nullptr;
  NcclStatus (*ncclCommInitRank)(NcclHandle* handle, int ranks, NcclId id, int rank) = nullptr;
  NcclStatus (*ncclCommGetAsyncError)(NcclHandle handle, NcclStatus* status) = nullptr;
  NcclStatus (*ncclCommAbort)(NcclHandle handle) = nullptr;
  NcclStatus (*ncclGroupStart)() = nullptr;
  NcclStatus (*ncclGroupEnd)() = nullptr;
  NcclStatus (*ncclAllReduce)(const void* in, void* out, std::size_t count, NcclType type, NcclSum operation,
                              NcclHandle handle, CUstream stream) = nullptr;
  NcclStatus (*ncclReduceScatter)(const void* in, void* out, std::size_t out_count, NcclType type, NcclSum operation,
                                  NcclHandle handle, CUstream stream) = nullptr;
  NcclStatus (*ncclAllGather)(const void* in, void* out, std::size_t in_count, NcclType type, NcclHandle handle,
                              CUstream stream) = nullptr;
  NcclStatus (*ncclBroadcast)(const void* in, void* out, std::size_t count, NcclType type, int root, NcclHandle handle,
                              CUstream stream) = nullptr;
  const char* (*ncclGetErrorString)(NcclStatus status) = nullptr;
  const char* (*ncclGetLastError)(NcclHandle handle) = nullptr;
};

// Throws Error (unsupported) with the places that were searched if the library is missing.
const Nccl& nccl();

// Throws Error with NCCL's text; `doing` completes "NCCL could not ...".
void check(NcclStatus status, std::string_view doing);

}  // namespace ridgepoint::cuda
