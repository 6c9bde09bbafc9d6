// What is changed in a captured run before it is instantiated.
//
// Libraries capture nodes that slow a run down. A fill of a few bytes, which cuBLASLt makes for some products, stops
// the kernels around it for 3 us, where a kernel that fills takes 1 us. NCCL also copies the part that a rank keeps,
// by a kernel that waits until the multiprocessors are free. Each mark of a collective is a branch of its own to
// the driver, and branches share few queues: gathers one behind another kept the kernels beside them waiting for up to
// all of their marks. Where the end of a collective and the begin of the next one touch, neither is marked: they share
// one time limit.
#pragma once

#include <functional>
#include <set>
#include <utility>

#include "backends/cuda/libraries/driver.h"

namespace ridgepoint::cuda {

class CudaContext;

class GraphEdits {
 public:
  // Called with a node and the one that takes its place, while both exist. At most one function listens; an empty one
  // ends that.
  using Listener = std::function<void(CUgraphNode node, CUgraphNode replacement)>;
  void set_listener(Listener listener) { listener_ = std::move(listener); }

  // Leaves out a copy of the run that is being captured, because nobody reads what it writes, or another node writes
  // it.
  void leave_out_copy(const void* from, const void* to) { unread_copies_.emplace(address(from), address(to)); }

  void begin() { unread_copies_.clear(); }
  // Of a graph whose capture has ended. Throws Error where the driver fails.
  void apply(CudaContext& context, CUgraph graph) const;

 private:
  static CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
  bool is_unread_copy(const Driver& driver, CUgraphNode node) const;

  std::set<std::pair<CUdeviceptr, CUdeviceptr>> unread_copies_;
  Listener listener_;
};

}  // namespace ridgepoint::cuda
