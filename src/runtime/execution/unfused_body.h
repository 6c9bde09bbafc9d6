// The body of a fused node, computed op by op: for a device that cannot make one kernel of it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "runtime/device/device.h"

namespace ridgepoint {

class UnfusedBody {
 public:
  using MakeKernel = std::function<std::unique_ptr<Kernel>(const KernelSpec&)>;

  // The layouts of the fused node's operands and results. Throws the exceptions of `make_kernel`.
  UnfusedBody(const FusedBody& body, std::span<const TensorLayout> inputs, std::span<const TensorLayout> outputs,
              const MakeKernel& make_kernel);

  void prepare();
  // For intermediate results, and the workspace of the kernel that needs most.
  std::size_t workspace_bytes() const { return intermediate_bytes_ + kernel_bytes_; }
  // Takes the arguments of the fused node. No output may share the memory of an input.
  void launch(const LaunchArguments& arguments);

 private:
  // The memory of an operand.
  struct Place {
    enum class In { input, output, workspace, nowhere } in = In::nowhere;
    std::size_t index = 0;  // of the input or output
    std::size_t offset_bytes = 0;
  };
  struct Step {
    std::unique_ptr<Kernel> kernel;
    std::vector<Place> operands;  // inputs, then outputs
    std::size_t input_count = 0;
  };

  std::vector<Place> place_buffers(const ExecutionPlan& plan);
  void make_step(const PlanStep& planned, const std::vector<Place>& buffers, std::span<const TensorLayout> inputs,
                 std::span<const TensorLayout> outputs, const MakeKernel& make_kernel);

  Graph graph_;
  std::vector<Step> steps_;
  std::size_t intermediate_bytes_ = 0;
  std::size_t kernel_bytes_ = 0;
  std::vector<void*> addresses_;  // of one step's operands
};

}  // namespace ridgepoint
