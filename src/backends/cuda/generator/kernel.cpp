#include "backends/cuda/generator/kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <type_traits>

#include "backends/cuda/driver/kernel_cache.h"
#include "backends/cuda/kernels/rates.h"
#include "backends/cuda/libraries/nvrtc.h"
#include "core/text/throw_error.h"
#include "lowering/row_program.h"
#include "ops/rule.h"
#include "runtime/execution/unfused_body.h"

namespace ridgepoint::cuda {
namespace {

std::string describe(const AttributeValue& value) {
  return std::visit(
      [](const auto& item) {
        if constexpr (std::is_same_v<std::decay_t<decltype(item)>, std::vector<std::int64_t>>) {
          return fmt::format("{}", fmt::join(item, ","));
        } else {
          return fmt::format("{}", item);
        }
      },
      value);
}

std::string describe(const TensorLayout& layout) {
  std::string text(name(layout.dtype));
  for (int axis = 0; axis < layout.shape.rank(); ++axis)
    text += fmt::format(" {}:{}", layout.shape[axis], layout.strides[static_cast<std::size_t>(axis)]);
  if (!layout.immediate) return text;
  return text + (is_integer(layout.dtype) ? fmt::format(" = {}", layout.immediate_integer)
                                          : fmt::format(" = {}", *layout.immediate));
}

GeneratedNode generate(const KernelSpec& spec, GeneratorTarget target) {
  const std::optional<std::vector<RowProgram>> programs =
      lower_to_rows(body_of(spec.graph, spec.node), spec.inputs, spec.outputs);
  if (!programs) {
    std::string operands;
    for (const Value value : spec.node.inputs)
      operands += (operands.empty() ? "" : ", ") + spec.graph.type(value).to_string();
    throw_error(ErrorKind::unsupported, "no CUDA kernel takes '{}' of {} in '{}'; run it on the CPU",
                name(spec.node.op), operands, spec.graph.scope_name(spec.node));
  }
  GeneratedNode node;
  for (const RowProgram& program : *programs) {
    for (const bool scalar : {false, true}) {
      target.scalar = scalar;
      std::vector<GeneratedSource>& sources = scalar ? node.scalar : node.sources;
      sources.push_back(generate_source(program, operation_name(spec.node), target));
      node.workspace_bytes = std::max(node.workspace_bytes, sources.back().workspace_bytes);
    }
  }
  return node;
}

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
  bool supports(const LaunchArguments& arguments) const {
    std::uintptr_t misaligned = 0;
    for (const Step& step : steps_) {
      for (const GeneratedParameter& parameter : step.launch.parameters)
        misaligned |= reinterpret_cast<std::uintptr_t>(address(parameter, arguments)) & (parameter.alignment_bytes - 1);
    }
    return misaligned == 0;
  }

  // Waits for the compiler.
  void load() {
    for (Step& step : steps_) {
      if (step.function == nullptr) step.function = step.loaded.function(step.launch.entry);
    }
  }

  void run(const LaunchArguments& arguments) {
    load();
    for (Step& step : steps_) {
      for (std::size_t i = 0; i < step.pointers.size(); ++i)
        step.pointers[i] = address(step.launch.parameters[i], arguments);
      context_.launch(step.function, step.shape, step.arguments.data(), step.launch.entry.c_str());
    }
  }

 private:
  struct Step {
    Step(const GeneratedLaunch& from, LoadedSource& source)
        : launch(from), loaded(source), pointers(from.parameters.size()) {
      shape.grid_x = from.grid;
      shape.block_x = from.block;
      shape.waits_by_itself = true;
    }
    const GeneratedLaunch& launch;
    LoadedSource& loaded;
    CUfunction function = nullptr;  // set by load()
    LaunchShape shape;
    std::vector<void*> pointers;
    std::vector<void*> arguments;  // addresses of the pointers
  };

  static void* address(const GeneratedParameter& parameter, const LaunchArguments& arguments) {
    switch (parameter.kind) {
      case GeneratedParameter::Kind::input: return arguments.inputs[parameter.index];
      case GeneratedParameter::Kind::output: return arguments.outputs[parameter.index];
      default: return static_cast<std::byte*>(arguments.workspace) + parameter.offset_bytes;
    }
  }

  CudaContext& context_;
  std::vector<std::shared_ptr<LoadedSource>> loaded_;
  std::vector<Step> steps_;
};

class GeneratedKernel : public Kernel {
 public:
  GeneratedKernel(CudaContext& context, std::string name, std::shared_ptr<const GeneratedNode> node,
                  const KernelSpec& spec)
      : context_(context),
        name_(std::move(name)),
        node_(std::move(node)),
        vectors_(context, node_->sources),
        body_(spec.node.body),
        inputs_(layouts_of(spec.inputs)),
        outputs_(layouts_of(spec.outputs)) {}

  std::string_view name() const override { return name_; }
  std::size_t workspace_bytes() const override {
    return unfused_ != nullptr ? unfused_->workspace_bytes() : node_->workspace_bytes;
  }
  std::string_view unfused_because() const override { return refusal_; }

  void prepare() override {
    if (unfused_ != nullptr) return;
    try {
      vectors_.load();
    } catch (const RefusedSource& refused) {
      if (body_ == nullptr) throw;
      const auto make_kernel = [&](const KernelSpec& spec) { return make_generated_kernel(context_, spec); };
      auto unfused = std::make_unique<UnfusedBody>(*body_, inputs_, outputs_, make_kernel);
      unfused->prepare();
      unfused_ = std::move(unfused);
      refusal_ = refused.what();
    }
  }

  void launch(const LaunchArguments& arguments) override {
    if (unfused_ != nullptr) [[unlikely]]
      return unfused_->launch(arguments);
    if (vectors_.supports(arguments)) [[likely]]
      return vectors_.run(arguments);
    if (scalar_ == nullptr) scalar_ = std::make_unique<LaunchSequence>(context_, node_->scalar);
    scalar_->run(arguments);
  }

 private:
  // Only those of a fused node are read again.
  std::vector<TensorLayout> layouts_of(std::span<const TensorLayout> layouts) const {
    return body_ == nullptr ? std::vector<TensorLayout>() : std::vector(layouts.begin(), layouts.end());
  }

  CudaContext& context_;
  std::string name_;
  std::shared_ptr<const GeneratedNode> node_;
  LaunchSequence vectors_;
  std::unique_ptr<LaunchSequence> scalar_;  // made at the first launch with a misaligned operand
  std::shared_ptr<const FusedBody> body_;   // of a fused node, and the layouts of its operands and results
  std::vector<TensorLayout> inputs_, outputs_;
  std::unique_ptr<UnfusedBody> unfused_;  // set where the compiler refused the fused kernel
  std::string refusal_;
};

std::string kernel_name(const GeneratedNode& node, const Node& of) {
  for (const GeneratedSource& source : node.sources) {
    if (!source.launches.empty()) return source.launches.front().entry;
  }
  return std::string(operation_name(of)) + "_empty";
}

}  // namespace

std::string node_signature(const KernelSpec& spec) {
  std::string text(name(spec.node.op));
  for (const auto& [key, value] : spec.node.attributes.items()) text += fmt::format(" {}={}", key, describe(value));
  if (spec.node.body != nullptr) text += " " + spec.node.body->text;
  for (const TensorLayout& layout : spec.inputs) text += " | " + describe(layout);
  text += " ->";
  for (const TensorLayout& layout : spec.outputs) text += " | " + describe(layout);
  return text;
}

std::shared_ptr<const GeneratedNode> generate_node(const KernelSpec& spec, int architecture, int multiprocessors) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const GeneratedNode>> nodes;
  const std::string key = fmt::format("sm_{} x{} {}", architecture, multiprocessors, node_signature(spec));
  const std::lock_guard lock(mutex);
  std::weak_ptr<const GeneratedNode>& entry = nodes[key];
  std::shared_ptr<const GeneratedNode> node = entry.lock();
  if (node != nullptr) return node;
  node = std::make_shared<const GeneratedNode>(
      generate(spec, {.architecture = architecture, .multiprocessors = multiprocessors}));
  entry = node;
  std::erase_if(nodes, [](const auto& item) { return item.second.expired(); });
  return node;
}

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
  return std::make_unique<GeneratedKernel>(context, std::move(name), std::move(node), spec);
}

KernelOutline outline_generated(const CardFacts& card, const KernelSpec& spec) {
  const std::shared_ptr<const GeneratedNode> node = generate_node(spec, card.capability.number(), card.multiprocessors);
  const bool has_codes = std::ranges::any_of(spec.inputs, [](const TensorLayout& operand) {
    return operand.dtype == DType::dynamic8 || operand.dtype == DType::udynamic8;
  });
  return {kernel_name(*node, spec.node), node->workspace_bytes,
          has_codes ? KernelRate(kCodedUpdateRate) : KernelRate(kRowRate)};
}

}  // namespace ridgepoint::cuda
