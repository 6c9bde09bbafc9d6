#include "runtime/make_kernels.h"

namespace ridgepoint {
namespace {

std::vector<TensorLayout> layouts_of(const std::vector<Operand>& operands) {
  std::vector<TensorLayout> layouts;
  for (const Operand& operand : operands) layouts.push_back(operand.layout);
  return layouts;
}

}  // namespace

Kernels make_kernels(const Graph& graph, const ExecutionPlan& plan, Device& device, const StopPoint& stop_point) {
  Kernels kernels;
  for (const PlanStep& step : plan.steps) {
    if (stop_point) stop_point();
    const std::vector<TensorLayout> inputs = layouts_of(step.inputs);
    const std::vector<TensorLayout> outputs = layouts_of(step.outputs);
    kernels.push_back(device.make_kernel({graph, graph.node(step.node), inputs, outputs}));
  }
  return kernels;
}

std::vector<std::size_t> workspace_bytes_of(const Kernels& kernels) {
  std::vector<std::size_t> bytes;
  for (const std::unique_ptr<Kernel>& kernel : kernels) bytes.push_back(kernel->workspace_bytes());
  return bytes;
}

}  // namespace ridgepoint
