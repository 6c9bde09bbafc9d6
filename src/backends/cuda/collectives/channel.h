// The NCCL communicator of this rank on a GPU, and the stream on which its collectives run, one after another. Joining
// takes a second, so it is kept like the context until the process ends.
#pragma once

#include <memory>
#include <optional>

#include "backends/cuda/collectives/collective_watch.h"
#include "backends/cuda/collectives/direct_memory.h"
#include "backends/cuda/collectives/eager_launches.h"
#include "backends/cuda/collectives/nccl.h"
#include "backends/cuda/driver/context.h"
#include "runtime/device/communicator.h"

namespace ridgepoint::cuda {

class Channel {
 public:
  // Joins the ranks at first use: all of them call it at once.
  static Channel& of_card(CudaContext& context, const std::shared_ptr<ProcessGroup>& group);

  CudaContext& context() { return context_; }
  CUstream stream() const { return stream_; }
  NcclHandle handle() const { return handle_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  CollectiveWatch& watch() { return *watch_; }
  EagerLaunches& eager_launches() { return *eager_launches_; }
  // Null where no memory of this GPU can be reached by the others.
  DirectMemory* direct_memory() { return direct_memory_.get(); }
  // The collectives of which copy engines send something.
  int copied() const { return copied_; }
  void count_copied(int more) { copied_ += more; }

 private:
  Channel(CudaContext& context, const std::shared_ptr<ProcessGroup>& group);
  NcclId prepare(ProcessGroup& group);
  void make_streams();

  CudaContext& context_;
  int rank_, ranks_;
  CUstream stream_ = nullptr, marks_ = nullptr;
  NcclHandle handle_ = nullptr;
  int copied_ = 0;
  std::optional<CollectiveWatch> watch_;
  std::optional<EagerLaunches> eager_launches_;
  std::unique_ptr<DirectMemory> direct_memory_;
};

}  // namespace ridgepoint::cuda
