#include "runtime/execution/make_kernels.h"

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

std::vector<TensorLayout> layouts_of(const std::vector<Operand>& operands) {
  std::vector<TensorLayout> layouts;
  for (const Operand& operand : operands) layouts.push_back(operand.layout);
  return layouts;
}

std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, Device& device, Communicator* communicator) {
  if (op_class(spec.node.op) != OpClass::collective || device.kind() == "null") return device.make_kernel(spec);
  if (communicator != nullptr) return communicator->make_kernel(spec);
  throw Error("graph '" + spec.graph.name + "' has " + std::string(name(spec.node.op)) + " over " +
                  std::to_string(spec.node.attributes.get<std::int64_t>("ranks")) +
                  " ranks, and this process has no communicator",
              ErrorKind::usage);
}

}  // namespace

Kernels make_kernels(const Graph& graph, const ExecutionPlan& plan, Device& device, Communicator* communicator,
                     const StopPoint& stop_point) {
  Kernels kernels;
  for (const PlanStep& step : plan.steps) {
    if (stop_point) stop_point();
    const std::vector<TensorLayout> inputs = layouts_of(step.inputs);
    const std::vector<TensorLayout> outputs = layouts_of(step.outputs);
    kernels.push_back(make_kernel({graph, graph.node(step.node), inputs, outputs}, device, communicator));
  }
  return kernels;
}

std::vector<std::size_t> workspace_bytes_of(const Kernels& kernels) {
  std::vector<std::size_t> bytes;
  for (const std::unique_ptr<Kernel>& kernel : kernels) bytes.push_back(kernel->workspace_bytes());
  return bytes;
}

}  // namespace ridgepoint
