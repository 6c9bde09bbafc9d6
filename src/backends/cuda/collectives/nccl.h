// NCCL (libnccl.so.2) as a table of functions, loaded at run time. Its header is no part of the CUDA toolkit, so the
// few declarations that the engine needs stand here; they have been the same in every release of NCCL 2 that has them.
#pragma once

#include <climits>
#include <cstddef>
#include <string_view>

#include "backends/cuda/libraries/driver_api.h"

namespace ridgepoint::cuda {

struct NcclCommunicatorState;
using NcclHandle = NcclCommunicatorState*;  // ncclComm_t

struct NcclId {  // ncclUniqueId
  char bytes[128];
};

struct NcclWindowState;
using NcclWindow = NcclWindowState*;  // ncclWindow_t

// ncclConfig_t of NCCL 2.28, which later releases read by its version.
struct NcclConfig {
  static constexpr int kUndefined = INT_MIN;
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 22800;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  const char* name = nullptr;
  int collnet_enable = kUndefined;
  int cta_policy = kUndefined;
  int shrink_share = kUndefined;
  int nvls_ctas = kUndefined;
  int channels_per_net_peer = kUndefined;
  int nvlink_centric_scheduling = kUndefined;
};
inline constexpr int kNcclNoCtas = 2;           // NCCL_CTA_POLICY_ZERO: copy engines where they can do the work
inline constexpr int kNcclSymmetricWindow = 1;  // NCCL_WIN_COLL_SYMMETRIC

enum class NcclType : int { int8 = 0, fp16 = 6, fp32 = 7, fp64 = 8, bf16 = 9 };  // ncclDataType_t
enum class NcclSum : int { sum = 0 };                                            // ncclRedOp_t
enum class NcclStatus : int { success = 0, in_progress = 7 };                    // ncclResult_t

struct Nccl {
  NcclStatus (*ncclGetVersion)(int* version) = nullptr;  // 22807 for 2.28.7
  NcclStatus (*ncclGetUniqueId)(NcclId* id) = nullptr;
  NcclStatus (*ncclCommInitRank)(NcclHandle* handle, int ranks, NcclId id, int rank) = nullptr;
  NcclStatus (*ncclCommGetAsyncError)(NcclHandle handle, NcclStatus* status) = nullptr;
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
  // All null where NCCL is older than 2.28.
  NcclStatus (*ncclAlltoAll)(const void* in, void* out, std::size_t part_count, NcclType type, NcclHandle handle,
                             CUstream stream) = nullptr;
  NcclStatus (*ncclCommSplit)(NcclHandle handle, int color, int key, NcclHandle* part, NcclConfig* config) = nullptr;
  NcclStatus (*ncclMemAlloc)(void** address, std::size_t bytes) = nullptr;
  NcclStatus (*ncclMemFree)(void* address) = nullptr;
  NcclStatus (*ncclCommWindowRegister)(NcclHandle handle, void* address, std::size_t bytes, NcclWindow* window,
                                       int flags) = nullptr;
  NcclStatus (*ncclCommWindowDeregister)(NcclHandle handle, NcclWindow window) = nullptr;
  const char* (*ncclGetErrorString)(NcclStatus status) = nullptr;
  const char* (*ncclGetLastError)(NcclHandle handle) = nullptr;
};

// Throws Error (unsupported) with the places that were searched if the library is missing.
const Nccl& nccl();

// Throws Error with NCCL's text; `doing` completes "NCCL could not ...".
void check(NcclStatus status, std::string_view doing);

// Calls of NCCL that become one kernel. It ends where a call between fails too, because an open one would take in
// whatever this thread asks of NCCL later.
class NcclGroup {
 public:
  NcclGroup() { check(nccl().ncclGroupStart(), "begin a group"); }
  ~NcclGroup() {
    if (is_open_) nccl().ncclGroupEnd();
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  void launch() {
    is_open_ = false;
    check(nccl().ncclGroupEnd(), "launch a collective");
  }

 private:
  bool is_open_ = true;
};

}  // namespace ridgepoint::cuda
