// Converts CUPTI's records to activities, and assigns each kernel, copy and fill to a launch of the executor.
//
// The executor's launches are pushed as external correlation ids, so CUPTI reports the launch of each driver or runtime
// call, and each kernel has the correlation id of its call. If this link is missing, the time of the call decides,
// because it is within the time of one launch. A captured run is one call for all of its kernels; each of them has the
// id of its node in the CUDA graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cuda/profiling/cupti.h"
#include "runtime/device/activity.h"

namespace ridgepoint::cuda {

// A launch of the executor on the host; its index in the list is its external id. Steady nanoseconds.
struct HostLaunch {
  std::uint32_t run = 0;
  std::uint32_t launch = 0;  // kNoLaunch: a captured run
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

// The launch that made each node of a CUDA graph, by CUPTI's id of the node.
using GraphNodes = std::unordered_map<std::uint64_t, std::uint32_t>;

class CuptiRecords {
 public:
  // A CUPTI timestamp plus `clock_offset_ns` is steady nanoseconds.
  explicit CuptiRecords(std::int64_t clock_offset_ns) : clock_offset_ns_(clock_offset_ns) {}

  void add(const CUpti_Activity& record);
  // Every kernel, copy and fill, in order of start. The launch of one from a graph node that is not in `nodes` is
  // kNoLaunch.
  std::vector<Activity> activities(std::span<const HostLaunch> launches, const GraphNodes& nodes = {}) const;
  // The number of launches that have a kernel, copy or fill so far. Those of captured runs count in every run.
  std::size_t launches_heard_of(std::span<const HostLaunch> launches, const GraphNodes& nodes = {}) const;
  // The number of records without times, for which the device had no memory.
  std::uint64_t untimed() const { return untimed_; }

 private:
  struct Call {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
  };
  struct Pending {
    Activity activity;
    std::uint32_t correlation = 0;
    std::uint64_t graph_node = 0;  // 0: not from a graph
  };

  void add_kernel(const CUpti_ActivityKernel9& record);
  template <typename Record>
  void add_copy(const Record& record);
  void add_fill(const CUpti_ActivityMemset4& record);
  void add_call(const CUpti_ActivityAPI& record);
  // `record` is of a kernel, copy or fill.
  template <typename Record>
  void add_timed(Activity activity, const Record& record);
  static std::uint32_t launch_index(const Pending& pending, const HostLaunch& launch, const GraphNodes& nodes);
  const HostLaunch* launch_of(std::uint32_t correlation, std::span<const HostLaunch> launches) const;
  std::int64_t steady(std::uint64_t timestamp) const { return static_cast<std::int64_t>(timestamp) + clock_offset_ns_; }

  std::int64_t clock_offset_ns_;
  std::vector<Pending> pending_;
  std::unordered_map<std::uint32_t, Call> calls_;              // by correlation id
  std::unordered_map<std::uint32_t, std::uint64_t> external_;  // correlation id -> external id
  std::uint64_t untimed_ = 0;
};

// A kernel's demangled name without its return type and parameter list.
std::string readable_kernel_name(const char* name);

}  // namespace ridgepoint::cuda
