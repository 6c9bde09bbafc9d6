// Walks a plan: asks the allocator at each buffer's first use, launches one kernel a node, frees after the last
// use. Everything is resolved when it is built; run() looks nothing up and, in the steady state, touches no heap.
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
  // Makes the kernels and allocates (and zeroes) the persistent buffers. The graph, plan, device and allocator must
  // outlive it. Throws OutOfMemory, and what `stop_point` throws, having given back what it took.
  Executor(const Graph& graph, const ExecutionPlan& plan, Device& device, Allocator& allocator,
           const StopPoint& stop_point = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Ends the outputs of the run before, then runs every step; asynchronous where the device is. After an exception
  // (OutOfMemory, a kernel's Error) only persistent buffers are live and it can run again.
  void run();

  // The address of an operand: of a persistent buffer at any time, of an output after run(); else null.
  void* address(const Operand& operand) const;

  // Watches every run from now on, until it is replaced; null ends that. One branch a node is what it costs then.
  void set_observer(LaunchObserver* observer) { observer_ = observer; }

  std::size_t launches() const { return steps_.size(); }
  NodeId launch_node(std::size_t launch) const { return NodeId{steps_[launch].node}; }
  std::string_view kernel_name(std::size_t launch) const { return steps_[launch].kernel->name(); }
  // Bytes allocated when the last run reached its backward phase; 0 without one.
  std::size_t before_backward_bytes() const { return before_backward_bytes_; }

 private:
  // Ranges index the flat tables below.
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
};

}  // namespace ridgepoint
