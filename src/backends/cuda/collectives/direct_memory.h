// Memory of a GPU that the other GPUs of the machine reach where it lies, by NCCL's symmetric windows (NCCL 2.28), so
// that copy engines can move what collectives send, and kernels keep all multiprocessors.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "backends/cuda/collectives/collective_watch.h"
#include "backends/cuda/collectives/nccl.h"
#include "backends/cuda/driver/context.h"
#include "ops/collectives.h"
#include "runtime/device/communicator.h"

namespace ridgepoint::cuda {

// Memory that can be made reachable. Null if the GPU's memory is full.
void* allocate_reachable(const CudaContext& context, std::size_t bytes);
void release_reachable(const CudaContext& context, void* address) noexcept;

class DirectMemory {
 public:
  // What a sum needs besides its operands: the parts that the other ranks send lie here.
  static constexpr std::size_t kStagingBytes = kMostBytesOfCopiedScatter;

  // For the ranks of the communicator `handle`, whose collectives have a stream and are watched. All ranks call it at
  // once. Null, on all of them, where NCCL is another than 2.28 or the cards do not reach each other's memory.
  static std::unique_ptr<DirectMemory> between(ProcessGroup& group, CudaContext& context, NcclHandle handle,
                                               CUstream stream, CollectiveWatch& watch);

  // Makes the memory reachable, which allocate_reachable() has made. All ranks call it at once. Null, on all of them,
  // if the memory of the ranks has different layouts.
  std::unique_ptr<SharedMemory> share(ProcessGroup& group, const FixedMemory& memory);

  // Whether all of it is reachable.
  bool holds(const void* address, std::size_t bytes) const;

  // A communicator of the same ranks, whose collectives copy engines do where both operands are reachable. The other
  // one knows nothing of reachable memory: its kernels for that would be slower.
  NcclHandle copying() const { return copying_; }
  std::byte* staging() const { return static_cast<std::byte*>(staging_); }

 private:
  class Share;
  DirectMemory(CudaContext& context, NcclHandle handle, CUstream stream)
      : context_(context), handle_(handle), stream_(stream) {}
  bool prepare(ProcessGroup& group, CollectiveWatch& watch);
  void release_staging() noexcept;
  bool open(ProcessGroup& group, void* address, std::size_t bytes, NcclWindow& window);
  std::string gather_for_the_first_time(int rank);
  void close(NcclWindow window) noexcept;

  CudaContext& context_;
  const NcclHandle handle_;
  const CUstream stream_;
  NcclHandle copying_ = nullptr;
  void* staging_ = nullptr;
  NcclWindow staging_window_ = nullptr;
  struct Range {
    std::size_t bytes = 0;
    NcclWindow window = nullptr;
  };
  std::map<const std::byte*, Range> ranges_;  // by address
};

}  // namespace ridgepoint::cuda
