// Executes a plan: allocates each buffer before its first use, launches one kernel per node, and frees each buffer
// after its last use. run() does not use the host heap in the steady state. With an allocator whose addresses are fixed
// (an arena), only the first run makes requests; later runs launch kernels with the same addresses, unless an observer
// or a trace watches.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory/allocator.h"
#include "plan/plan.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/activity.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// The device's time of each phase of a run, also of a captured one: a point is marked where the phase of the launches
// changes, and after the last launch.
class PhaseTimer {
 public:
  // `phases`: the phase of each launch, in order.
  PhaseTimer(Device& device, std::span<const Phase> phases) {
    for (std::size_t i = 0; i < phases.size(); ++i) {
      if (segments_.empty() || segments_.back().phase != phases[i]) segments_.push_back({phases[i], i});
    }
    timer_ = device.make_timer(segments_.size() + 1);
  }

  // Call these in every run, or while it is captured: begin(), then before_launch() of each launch, then end().
  void begin() { next_ = 0; }
  void before_launch(std::size_t launch) {
    if (next_ < segments_.size() && segments_[next_].first_launch == launch) timer_->mark(next_++);
  }
  void end() { timer_->mark(segments_.size()); }

  // Of the last run; waits until the device has finished it.
  PhaseTimes read() const {
    PhaseTimes times;
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      std::optional<double>& sum = times[segments_[i].phase];
      sum = sum.value_or(0) + timer_->elapsed_ms(i, i + 1);
    }
    return times;
  }

 private:
  // Launches in a row of one phase. Point i of the timer is before segment i.
  struct Segment {
    Phase phase;
    std::size_t first_launch;
  };
  std::vector<Segment> segments_;
  std::unique_ptr<DeviceTimer> timer_;
  std::size_t next_ = 0;
};

// What the kernel of a step is made for.
class StepSpec {
 public:
  StepSpec(const Graph& graph, const PlanStep& step);
  KernelSpec spec() const { return {graph_, graph_.node(node_), inputs_, outputs_}; }

 private:
  const Graph& graph_;
  NodeId node_;
  std::vector<TensorLayout> inputs_, outputs_;
};

using Kernels = std::vector<std::unique_ptr<Kernel>>;

// Throws the exceptions of Device::make_kernel() and of `stop_point`, which is called before each kernel, and Error
// (usage) for a collective without a communicator.
Kernels make_kernels(const Graph& graph, const ExecutionPlan& plan, Device& device,
                     Communicator* communicator = nullptr, const StopPoint& stop_point = {},
                     OffloadFile* file = nullptr);

// The workspace of each kernel, as lifetimes_of() takes it.
std::vector<std::size_t> workspace_bytes_of(const Kernels& kernels);

class Executor {
 public:
  // Allocates the persistent buffers and sets them to zero. `kernels` are those of the plan (make_kernels). The
  // graph, plan, kernels, device and allocator must outlive the executor. Throws OutOfMemory, and the exceptions of
  // `stop_point`. With `captures`, the second run is captured (Device::capture) and later runs repeat it, unless an
  // observer watches that cannot follow. With a communicator, all ranks capture a run or none does. `file`: of a plan
  // with tensors on disk, unless the device only plans.
  Executor(const Graph& graph, const ExecutionPlan& plan, const Kernels& kernels, Device& device, Allocator& allocator,
           bool captures = false, const StopPoint& stop_point = {}, Communicator* communicator = nullptr,
           OffloadFile* file = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Frees the outputs of the previous run, then runs every step; asynchronous on devices that are. After an exception
  // (OutOfMemory, a kernel's Error) only persistent buffers are allocated, and run() may be called again.
  void run();

  // Gives a buffer memory from outside, from the next run on, or null: memory of the allocator again. Persistent
  // buffers get the memory back that they had, others lose what the last run left in them.
  void bind(BufferId buffer, std::byte* memory);
  bool is_bound(BufferId buffer) const { return !bound_.empty() && bound_[buffer].memory != nullptr; }

  // The address of an operand; null while its buffer is not allocated.
  void* address(const Operand& operand) const;

  // The next run makes its requests to the allocator again, which counts their peak.
  void count_next_run();

  // Calls `observer` in every later run; null ends this. Runs are then captured only if the observer can follow that.
  void set_observer(LaunchObserver* observer) {
    observer_ = observer;
    if (observer != nullptr) captured_.reset();  // it did not see the capture
    is_followed_ = true;
  }

  // Times the phases of every later run, captured or not.
  void time_phases();
  // Of the last run, which must have begun after time_phases(); waits until the device has finished it.
  PhaseTimes phase_times() const { return phase_timer_->read(); }

  // Whether the last run was captured, and why the device could not capture it: empty if it could, or was not asked to.
  bool is_captured() const { return captured_ != nullptr; }
  const std::string& capture_problem() const { return capture_problem_; }
  // The bodies of fused nodes that run op by op because the device could not compile them; known after the first run.
  const std::vector<std::string>& unfused() const { return unfused_; }

  std::size_t launches() const { return steps_.size(); }
  NodeId launch_node(std::size_t launch) const { return NodeId{steps_[launch].node}; }
  std::string_view kernel_name(std::size_t launch) const { return steps_[launch].kernel->name(); }
  // The most bytes allocated during a launch of each phase in the last run that made requests, and what they were then.
  struct PhasePeak {
    bool has_launches = false;
    std::size_t bytes = 0;
    CategoryBytes categories{};
  };
  const std::array<PhasePeak, kPhaseCount>& phase_peaks() const { return phase_peaks_; }
  // The bytes allocated when the last run reached its backward phase; 0 without one.
  std::size_t before_backward_bytes() const { return before_backward_bytes_; }

 private:
  // Ranges are indices into operands_, buffer_lists_ and waits_.
  struct Step {
    Kernel* kernel;
    std::uint32_t node;
    Phase phase;
    std::uint32_t first_operand, input_count, output_count;
    std::uint32_t first_allocate, first_release, end_release;
    std::uint32_t first_wait, end_wait, end_own_wait;
    std::size_t workspace_bytes;
    void* workspace;         // of the last run that allocated it
    bool has_own_workspace;  // outside of the plan: own_workspace_
  };
  struct OperandSlot {
    BufferId buffer;
    std::size_t offset_bytes;
  };
  struct Bound {
    std::byte* memory = nullptr;  // null: not bound
    std::byte* own = nullptr;     // of a persistent buffer
  };

  void resolve(const Kernels& kernels);
  void allocate_on_host();
  void allocate_persistent(const StopPoint& stop_point);
  std::byte* allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node, std::size_t index);
  void prepare_kernels();
  void share_memory();
  void reserve_own_workspace(std::size_t bytes);
  void run_once();
  bool run_captured();
  std::string try_capture();
  std::unique_ptr<CapturedLaunches> capture();
  void repeat();
  bool repeats_addresses() const;
  void run_steps();
  void wait_for_all();
  void allocate_and_run_steps();
  void run_step(Step& step);
  void count_peak(Phase phase);
  void free_workspace(const Step& step);
  void launch(const Step& step);
  void release(BufferId buffer);
  void release_all(bool persistent);

  const Graph& graph_;
  const ExecutionPlan& plan_;
  Device& device_;
  Allocator& allocator_;
  std::vector<Step> steps_;
  std::vector<OperandSlot> operands_;
  std::vector<BufferId> buffer_lists_;  // what each step allocates, then releases
  std::vector<Kernel*> waits_;          // the collectives and transfers that each step waits for
  std::vector<Kernel*> beside_;         // all of them
  std::vector<BufferId> outputs_;
  std::vector<std::byte*> base_;            // by buffer; null when not live
  std::shared_ptr<std::byte> host_memory_;  // of the buffers on the host
  std::vector<Bound> bound_;                // by buffer; empty until one is bound
  std::vector<void*> arguments_;            // the address of each operand in the last run that allocated
  std::size_t before_backward_bytes_ = 0;
  std::array<PhasePeak, kPhaseCount> phase_peaks_;
  LaunchObserver* observer_ = nullptr;
  std::unique_ptr<PhaseTimer> phase_timer_;  // null unless phases are timed
  std::string capture_problem_;
  std::vector<std::string> unfused_;
  std::byte* own_workspace_ = nullptr;  // of kernels that run op by op and need more than the plan has
  std::size_t own_workspace_bytes_ = 0;
  Communicator* communicator_;
  OffloadFile* file_;
  std::unique_ptr<SharedMemory> shared_memory_;  // null where collectives have memory of their own
  bool has_asked_to_share_ = false;
  bool captures_;
  bool is_followed_ = true;                     // unless an observer, here or on another rank, cannot follow captures
  bool has_run_ = false;                        // kernels are prepared, and the allocator has its segments
  bool has_addresses_ = false;                  // the last run that allocated was complete
  std::unique_ptr<CapturedLaunches> captured_;  // of the last run
};

}  // namespace ridgepoint
