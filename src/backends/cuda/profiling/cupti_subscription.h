// The use of CUPTI by this process: records of kernels, copies and calls, and callbacks on the nodes of CUDA graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/cuda/profiling/cupti.h"
#include "backends/cuda/profiling/cupti_records.h"
#include "runtime/device/activity.h"

namespace ridgepoint::cuda {

// Which launch made each node of a captured CUDA graph. A graph is instantiated as a copy of the captured one, whose
// nodes have ids of their own, and the kernels of its launches have the ids of these.
class CapturedNodes {
 public:
  // Nodes that are created from here to end_launch() belong to the launch.
  void begin_launch(std::uint32_t launch) { launch_ = launch; }
  void end_launch() { launch_ = kNoLaunch; }

  void created(std::uint64_t node) {
    if (launch_ == kNoLaunch) return;
    launches_[node] = launch_;
    if (launch_ != last_counted_) ++launch_count_;
    last_counted_ = launch_;
  }
  void copied(std::uint64_t original, std::uint64_t copy) {
    if (const auto known = launches_.find(original); known != launches_.end()) launches_[copy] = known->second;
  }
  void forget() { *this = {}; }

  const GraphNodes& launches() const { return launches_; }
  // The number of launches that made a node.
  std::size_t launch_count() const { return launch_count_; }

 private:
  GraphNodes launches_;
  std::uint32_t launch_ = kNoLaunch;
  std::uint32_t last_counted_ = kNoLaunch;
  std::size_t launch_count_ = 0;
};

// CUPTI's id of a node of a CUDA graph; nothing where it knows none.
std::optional<std::uint64_t> id_of_graph_node(CUgraphNode node);

// While an object exists, this process is CUPTI's only subscriber, all kinds of records are enabled, and CUPTI tells
// `nodes`, on the thread that captures, of every graph node.
class CuptiSubscription {
 public:
  // Throws Error if recording is not possible.
  explicit CuptiSubscription(CapturedNodes& nodes);
  ~CuptiSubscription() { end(); }
  CuptiSubscription(const CuptiSubscription&) = delete;
  CuptiSubscription& operator=(const CuptiSubscription&) = delete;

  // Whether CUPTI tells of graph nodes.
  bool sees_graph_nodes() const { return sees_graph_nodes_; }

  // Moves complete records to the buffers; with CUPTI_ACTIVITY_FLAG_FLUSH_FORCED all other records too.
  void flush(std::uint32_t flags) const { check(call_, call_.cuptiActivityFlushAll(flags), "flush its records"); }

 private:
  static void on_callback(void* nodes, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
  void end() noexcept;

  const Cupti& call_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::size_t enabled_ = 0;  // kinds of records
  bool sees_graph_nodes_ = false;
};

}  // namespace ridgepoint::cuda
