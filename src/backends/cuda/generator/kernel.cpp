#include "backends/cuda/generator/kernel.h"

#include <string>
#include <vector>

#include "backends/cuda/driver/kernel_cache.h"
#include "backends/cuda/generator/node.h"
#include "lowering/row_program.h"
#include "ops/rule.h"

namespace ridgepoint::cuda {
namespace {

// The launches of one version of a node, with memory for their arguments.
class LaunchSequence {
 public:
  LaunchSequence(CudaContext& context, const std::vector<GeneratedSource>& sources) : context_(context) {
    for (const GeneratedSource& source : sources) {
      if (source.launches.empty()) continue;
      loaded_.push_back(LoadedSource::open(context, source.text, source.launches.front().entry));
      for (const GeneratedLaunch& launch : source.launches) steps_.emplace_back(launch, *loaded_.back());
    }
    for (Step& step : steps_) {
      for (void*& pointer : step.pointers) step.arguments.push_back(&pointer);
    }
  }

  LaunchSequence(const LaunchSequence&) = delete;
  LaunchSequence& operator=(const LaunchSequence&) = delete;

  // Whether all addresses are aligned as the kernels' accesses require.
  bool accepts(const LaunchArguments& arguments) const {
    std::uintptr_t misaligned = 0;
    for (const Step& step : steps_) {
      for (const GeneratedParameter& parameter : step.launch.parameters) {
        misaligned |= reinterpret_cast<std::uintptr_t>(address(parameter, arguments)) & (parameter.alignment_bytes - 1);
      }
    }
    return misaligned == 0;
  }

  void run(const LaunchArguments& arguments) {
    for (Step& step : steps_) {
      if (step.function == nullptr) step.function = step.loaded.function(step.launch.entry);
      for (std::size_t i = 0; i < step.pointers.size(); ++i) {
        step.pointers[i] = address(step.launch.parameters[i], arguments);
      }
      context_.launch(step.function, step.shape, step.arguments.data(), step.launch.entry.c_str());
    }
  }

 private:
  struct Step {
    Step(const GeneratedLaunch& from, LoadedSource& source)
        : launch(from), loaded(source), pointers(from.parameters.size()) {
      shape.grid_x = from.grid;
      shape.block_x = from.block;
    }
    const GeneratedLaunch& launch;
    LoadedSource& loaded;
    CUfunction function = nullptr;  // set by the first launch, which waits for the compiler
    LaunchShape shape;
    std::vector<void*> pointers;
    std::vector<void*> arguments;  // addresses of the pointers
  };

  static void* address(const GeneratedParameter& parameter, const LaunchArguments& arguments) {
    switch (parameter.kind) {
      case GeneratedParameter::Kind::input:
        return arguments.inputs[parameter.index];
      case GeneratedParameter::Kind::output:
        return arguments.outputs[parameter.index];
      default:
        return static_cast<std::byte*>(arguments.workspace) + parameter.offset_bytes;
    }
  }

  CudaContext& context_;
  std::vector<std::shared_ptr<LoadedSource>> loaded_;
  std::vector<Step> steps_;
};

class GeneratedKernel : public Kernel {
 public:
  GeneratedKernel(CudaContext& context, std::string name, std::shared_ptr<const GeneratedNode> node)
      : context_(context), name_(std::move(name)), node_(std::move(node)), vectors_(context, node_->sources) {}

  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override { return node_->workspace_bytes; }

  void launch(const LaunchArguments& arguments) override {
    if (vectors_.accepts(arguments)) [[likely]]
      return vectors_.run(arguments);
    if (scalar_ == nullptr) scalar_ = std::make_unique<LaunchSequence>(context_, node_->scalar);
    scalar_->run(arguments);
  }

 private:
  CudaContext& context_;
  std::string name_;
  std::shared_ptr<const GeneratedNode> node_;
  LaunchSequence vectors_;
  std::unique_ptr<LaunchSequence> scalar_;  // made at the first launch with a misaligned operand
};

std::string kernel_name(const GeneratedNode& node, const Node& of) {
  for (const GeneratedSource& source : node.sources) {
    if (!source.launches.empty()) return source.launches.front().entry;
  }
  return std::string(operation_name(of)) + "_empty";
}

}  // namespace

bool fits_generated(const Graph& graph, const Node& node) {
  const OpClass kind = op_class(node.op);
  if (kind == OpClass::elementwise || kind == OpClass::reduction) return true;
  if (kind != OpClass::composite && kind != OpClass::fused) return false;
  std::vector<TensorLayout> inputs;
  std::vector<TensorLayout> outputs;
  for (const Value value : node.inputs) inputs.push_back(dense_layout(graph.type(value)));
  for (const Value value : node.outputs) outputs.push_back(dense_layout(graph.type(value)));
  const Graph body = body_of(graph, node);
  return lower_to_rows(body, inputs, outputs) && (kind != OpClass::fused || lowers_to_one_program(body));
}

std::unique_ptr<Kernel> make_generated_kernel(CudaContext& context, const KernelSpec& spec) {
  const CardFacts& card = context.card();
  std::shared_ptr<const GeneratedNode> node = generate_node(spec, card.capability.number(), card.multiprocessors);
  std::string name = kernel_name(*node, spec.node);
  return std::make_unique<GeneratedKernel>(context, std::move(name), std::move(node));
}

KernelOutline outline_generated(const CudaContext& context, const KernelSpec& spec) {
  const CardFacts& card = context.card();
  const std::shared_ptr<const GeneratedNode> node = generate_node(spec, card.capability.number(), card.multiprocessors);
  return {kernel_name(*node, spec.node), node->workspace_bytes};
}

}  // namespace ridgepoint::cuda
