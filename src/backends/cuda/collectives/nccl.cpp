#include "backends/cuda/collectives/nccl.h"

#include <cstdlib>

#include "backends/cuda/libraries/shared_library.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::string_view kFile = "libnccl.so.2";

// Of a captured collective by kernels, NCCL maps the memory on the other ranks: all of the arena. It ends such a
// mapping only in a later collective (one in 11) behind the end of the graph, so the arena of one program would still
// be held where the next one asks for its own, and a mapping could meet another arena at the same address. Kernels go
// through NCCL's own buffers instead. A setting of the user stays.
void register_nothing_of_graphs() { ::setenv("NCCL_GRAPH_REGISTER", "0", 0); }

Nccl load() {
  register_nothing_of_graphs();  // NCCL reads it once
  const SharedLibrary library(kFile);
  if (!library.is_open())
    throw_error(ErrorKind::unsupported,
                "several ranks on GPUs need NCCL, and {} could not be opened ({}); install it (NVIDIA's "
                "package libnccl2), or add its folder to LD_LIBRARY_PATH",
                kFile, library.reason());
  Nccl table;
#define RIDGEPOINT_NCCL_FIND(name) library.load(table.name, #name)
  RIDGEPOINT_NCCL_FIND(ncclGetVersion);
  RIDGEPOINT_NCCL_FIND(ncclGetUniqueId);
  RIDGEPOINT_NCCL_FIND(ncclCommInitRank);
  RIDGEPOINT_NCCL_FIND(ncclCommGetAsyncError);
  RIDGEPOINT_NCCL_FIND(ncclGroupStart);
  RIDGEPOINT_NCCL_FIND(ncclGroupEnd);
  RIDGEPOINT_NCCL_FIND(ncclAllReduce);
  RIDGEPOINT_NCCL_FIND(ncclReduceScatter);
  RIDGEPOINT_NCCL_FIND(ncclAllGather);
  RIDGEPOINT_NCCL_FIND(ncclBroadcast);
  RIDGEPOINT_NCCL_FIND(ncclGetErrorString);
  RIDGEPOINT_NCCL_FIND(ncclGetLastError);
  if (library.find("ncclAlltoAll") == nullptr) return table;  // before NCCL 2.28
  RIDGEPOINT_NCCL_FIND(ncclAlltoAll);
  RIDGEPOINT_NCCL_FIND(ncclCommSplit);
  RIDGEPOINT_NCCL_FIND(ncclMemAlloc);
  RIDGEPOINT_NCCL_FIND(ncclMemFree);
  RIDGEPOINT_NCCL_FIND(ncclCommWindowRegister);
  RIDGEPOINT_NCCL_FIND(ncclCommWindowDeregister);
#undef RIDGEPOINT_NCCL_FIND
  return table;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl table = load();
  return table;
}

void check(NcclStatus status, std::string_view doing) {
  if (status == NcclStatus::success) return;
  throw_error("NCCL could not {}: {} ({})", doing, nccl().ncclGetErrorString(status), nccl().ncclGetLastError(nullptr));
}

}  // namespace ridgepoint::cuda
