// Executes a plan: allocates each buffer before its first use, launches one kernel per node, and frees each buffer
// after its last use. Kernels are created in the constructor; run() does not use the host heap in the steady state.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "memory/allocator.h"
#include "plan/plan.h"
#include "ridgepoint/stop_point.h"
#include "runtime/activity.h"
#include "runtime/device.h"

namespace ridgepoint {

class Executor {
 public:
  // Creates the kernels, allocates the persistent buffers and sets them to zero. The graph, plan, device and allocator
  // must outlive the executor. Throws OutOfMemory, and the exceptions of `stop_point`. With `captures`, the second run
  // is captured (Device::capture) and later runs repeat it, unless an observer watches.
  Executor(const Graph& graph, const ExecutionPlan& plan, Device& device, Allocator& allocator, bool captures = false,
           const StopPoint& stop_point = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Frees the outputs of the previous run, then runs every step; asynchronous on devices that are. After an exception
  // (OutOfMemory, a kernel's Error) only persistent buffers are allocated, and run() may be called again.
  void run();

  // The address of an operand; null while its buffer is not allocated.
  void* address(const Operand& operand) const;

  // Calls `observer` in every later run, whose launches are then made one by one; null ends this.
  void set_observer(LaunchObserver* observer) { observer_ = observer; }

  std::size_t launches() const { return steps_.size(); }
  NodeId launch_node(std::size_t launch) const { return NodeId{steps_[launch].node}; }
  std::string_view kernel_name(std::size_t launch) const { return steps_[launch].kernel->name(); }
  // The bytes allocated when the last run reached its backward phase; 0 without one.
  std::size_t before_backward_bytes() const { return before_backward_bytes_; }

 private:
  // Ranges are indices into operands_ and buffer_lists_.
  struct Step {
    Kernel* kernel;
    std::uint32_t node;
    std::uint32_t first_operand, input_count, output_count;
    std::uint32_t first_allocate, first_release, end_release;
    std::size_t workspace_bytes;
  };
  struct OperandSlot {
    BufferId buffer;
    std::size_t offset_bytes;
  };

  void resolve(const StopPoint& stop_point);
  void allocate_persistent(const StopPoint& stop_point);
  std::byte* allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node);
  void run_once();
  bool run_captured();
  void run_steps();
  void run_step(const Step& step);
  void launch(const Step& step, void* workspace);
  void release(BufferId buffer);
  void release_all(bool persistent);

  const Graph& graph_;
  const ExecutionPlan& plan_;
  Device& device_;
  Allocator& allocator_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Step> steps_;
  std::vector<OperandSlot> operands_;
  std::vector<BufferId> buffer_lists_;  // what each step allocates, then releases
  std::vector<BufferId> outputs_;
  std::vector<std::byte*> base_;  // by buffer; null when not live
  std::vector<void*> arguments_;  // one step's operand addresses
  std::size_t before_backward_bytes_ = 0;
  LaunchObserver* observer_ = nullptr;
  bool captures_;
  bool has_run_ = false;                        // kernels are loaded, and the allocator has its segments
  std::unique_ptr<CapturedLaunches> captured_;  // of the last run
};

}  // namespace ridgepoint
