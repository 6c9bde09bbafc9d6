#include "ridgepoint/program.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "compile/compile.h"
#include "core/nearest.h"
#include "memory/caching_allocator.h"
#include "ops/rule.h"
#include "plan/plan.h"
#include "ridgepoint/error.h"
#include "ridgepoint/ops.h"
#include "runtime/executor.h"

namespace ridgepoint {
namespace {

PassTarget target_of(const Device& device) {
  return {.has_kernel = [&](const Graph& graph, const Node& node) { return device.has_kernel(graph, node); },
          .operand_layout = [&](const Graph& graph, const Node& node,
                                int i) { return device.operand_layout(graph, node, i); }};
}

Graph compiled(Graph graph, const Device& device, const ProgramOptions& options) {
  CompileOptions compile_options = options.compile;
  if (!compile_options.stop_point) compile_options.stop_point = options.stop_point;
  return compile(std::move(graph), device, compile_options);
}

// For each integer input, the number of rows of the smallest table that it indexes, directly or through views.
std::map<std::string, std::int64_t> index_bounds(const Graph& graph) {
  std::vector<std::int64_t> bounds(graph.value_count(), INT64_MAX);
  const auto bound = [&](Value indices, std::int64_t end) { bounds[indices.id] = std::min(bounds[indices.id], end); };
  for (const NodeId id : std::views::reverse(graph.order())) {
    const Node& node = graph.node(id);
    if (op_class(node.op) == OpClass::view) bound(node.inputs[0], bounds[node.outputs[0].id]);
    if (node.op == Op::embedding) bound(node.inputs[1], graph.type(node.inputs[0]).shape[0]);
    if (node.op == Op::embedding_backward) bound(node.inputs[1], node.attributes.get<std::int64_t>("rows"));
    if (node.op == Op::cross_entropy) bound(node.inputs[1], graph.type(node.inputs[0]).shape[1]);
  }
  std::map<std::string, std::int64_t> by_input;
  for (const NodeId id : graph.inputs()) {
    const Value value = graph.node(id).outputs[0];
    if (graph.type(value).dtype == DType::int64) by_input[input_name(graph.node(id))] = bounds[value.id];
  }
  return by_input;
}

std::unique_ptr<Allocator> make_allocator(Device& device, MemoryTrace* trace) {
  std::unique_ptr<Allocator> allocator = make_caching_allocator(device, device.total_memory_bytes());
  allocator->set_trace(trace);
  return allocator;
}

struct InputSlot {
  std::string name;
  Value value;
  std::int64_t index_bound = INT64_MAX;  // exclusive; of int64 data
};

}  // namespace

struct ProgramPlan::Implementation {
  Implementation(Graph source, std::shared_ptr<Device> target, const ProgramOptions& options)
      : device(std::move(target)),
        bounds(index_bounds(source)),
        graph(compiled(std::move(source), *device, options)),
        inputs(input_slots(graph, bounds)),
        plan(make_plan(graph)) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      input_index.emplace(inputs[i].name, i);
      const Node& node = graph.producer_node(inputs[i].value);
      if (node.attributes.contains(kCopyOf)) {
        low_copies.emplace(node.attributes.get<std::string>(kCopyOf), inputs[i].value);
      }
    }
  }

  static std::vector<InputSlot> input_slots(const Graph& graph, const std::map<std::string, std::int64_t>& bounds) {
    std::vector<InputSlot> slots;
    for (const NodeId id : graph.inputs()) {
      const Node& node = graph.node(id);
      InputSlot slot{input_name(node), node.outputs[0]};
      if (const auto bound = bounds.find(slot.name); bound != bounds.end()) slot.index_bound = bound->second;
      slots.push_back(std::move(slot));
    }
    return slots;
  }

  const InputSlot& find_input(std::string_view name) const {
    const auto found = input_index.find(name);
    if (found != input_index.end()) return inputs[found->second];
    std::vector<std::string_view> names;
    for (const InputSlot& slot : inputs) names.push_back(slot.name);
    throw Error("the program has no input '" + std::string(name) + "'" + hint(name, names), ErrorKind::usage);
  }

  std::shared_ptr<Device> device;
  std::map<std::string, std::int64_t> bounds;
  Graph graph;
  std::vector<InputSlot> inputs;
  std::map<std::string, std::size_t, std::less<>> input_index;
  std::map<std::string, Value> low_copies;  // by the name of the parameter
  ExecutionPlan plan;
};

Graph compile(Graph forward, const Device& device, const CompileOptions& options) {
  return compile(std::move(forward), target_of(device), options);
}

ProgramPlan::ProgramPlan(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options)
    : implementation_(std::make_shared<const Implementation>(std::move(graph), std::move(device), options)) {}

const Graph& ProgramPlan::graph() const { return implementation_->graph; }
const std::shared_ptr<Device>& ProgramPlan::device() const { return implementation_->device; }

struct Program::Implementation {
  Implementation(std::shared_ptr<const ProgramPlan::Implementation> planned, const std::shared_ptr<Device>& on,
                 const ProgramOptions& options)
      : source(std::move(planned)),
        device(on != nullptr ? on : source->device),
        graph(source->graph),
        plan(source->plan),
        allocator(make_allocator(*device, options.memory_trace)),
        executor(graph, plan, *device, *allocator, options.compile.level == Compile::full, options.stop_point) {
    std::vector<NodeId> nodes;
    for (std::size_t i = 0; i < executor.launches(); ++i) nodes.push_back(executor.launch_node(i));
    marker = device->make_range_marker(graph, nodes);
    executor.set_observer(marker.get());
    write_initial_values();
  }

  // Writes the attribute "initial" of inputs, such as the loss scale.
  void write_initial_values() {
    for (const InputSlot& slot : source->inputs) {
      const Node& node = graph.producer_node(slot.value);
      if (!node.attributes.contains("initial")) continue;
      HostTensor tensor({DType::fp64, graph.type(slot.value).shape});
      std::ranges::fill(tensor.as<double>(), node.attributes.get<double>("initial"));
      write(slot.value, tensor);
    }
  }

  const InputSlot& find_input(std::string_view name) const { return source->find_input(name); }

  // Casts the tensor to the type of the value.
  void write(Value value, const HostTensor& tensor) {
    const DType dtype = graph.type(value).dtype;
    if (tensor.type.dtype != dtype) return write(value, convert(tensor, dtype));
    device->copy_to_device(executor.address(plan.values[value.id]), tensor.data.data(), tensor.data.size());
  }

  // Throws Error with `message` when the value has no memory.
  HostTensor read(Value value, const char* message = "an output was read before the program ran") const {
    const void* address = executor.address(plan.values[value.id]);
    if (address == nullptr) throw Error(message, ErrorKind::usage);
    HostTensor tensor(graph.type(value));
    device->synchronize();
    device->copy_to_host(tensor.data.data(), address, tensor.data.size());
    return tensor;
  }

  std::shared_ptr<const ProgramPlan::Implementation> source;
  std::shared_ptr<Device> device;
  const Graph& graph;
  const ExecutionPlan& plan;
  std::unique_ptr<Allocator> allocator;
  std::unique_ptr<LaunchObserver> marker;  // null unless an external profiler is attached
  Executor executor;
};

Program::Program(const ProgramPlan& plan, std::shared_ptr<Device> device, const ProgramOptions& options)
    : implementation_(std::make_unique<Implementation>(plan.implementation_, std::move(device), options)) {}
Program::Program(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options)
    : Program(ProgramPlan(std::move(graph), std::move(device), options), nullptr, options) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

void Program::write_input(std::string_view name, const HostTensor& tensor) {
  Implementation& self = *implementation_;
  const InputSlot& slot = self.find_input(name);
  const TensorType type = declared_type(self.graph, self.graph.producer_node(slot.value));
  if (!(tensor.type == type)) {
    throw Error("input '" + slot.name + "' is " + type.to_string() + "; the given tensor is " + tensor.type.to_string(),
                ErrorKind::usage);
  }
  if (slot.index_bound != INT64_MAX) {
    const std::span<const std::int64_t> indices = tensor.as<std::int64_t>();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= slot.index_bound) {
        throw Error("element " + std::to_string(i) + " of '" + slot.name + "' is " + std::to_string(indices[i]) +
                        "; indices must be from 0 to " + std::to_string(slot.index_bound - 1),
                    ErrorKind::usage);
      }
    }
  }
  self.write(slot.value, tensor);
  const auto copy = self.source->low_copies.find(slot.name);
  if (copy != self.source->low_copies.end()) self.write(copy->second, tensor);
}

std::optional<std::int64_t> Program::index_bound(std::string_view name) const {
  const std::int64_t bound = implementation_->find_input(name).index_bound;
  return bound == INT64_MAX ? std::nullopt : std::optional(bound);
}

HostTensor Program::read_input(std::string_view name) const {
  const Implementation& self = *implementation_;
  const Value value = self.find_input(name).value;
  const DType dtype = declared_type(self.graph, self.graph.producer_node(value)).dtype;
  HostTensor tensor = self.read(value);
  return tensor.type.dtype == dtype ? tensor : convert(tensor, dtype);
}

HostTensor Program::read_output(std::string_view name) const {
  const Implementation& self = *implementation_;
  const std::optional<Value> value = self.graph.find_output(name);
  if (!value) {
    std::vector<std::string_view> names;
    for (const Output& output : self.graph.outputs()) names.push_back(output.name);
    throw Error("the program has no output '" + std::string(name) + "'" + hint(name, names), ErrorKind::usage);
  }
  return self.read(*value);
}

HostTensor Program::read_value(Value value) const {
  return implementation_->read(value, "a value was read before its launch or after its last use");
}

void Program::run() { implementation_->executor.run(); }
void Program::synchronize() { implementation_->device->synchronize(); }

MemoryUse Program::memory_use() const { return implementation_->allocator->use(); }
void Program::reset_peak_memory() { implementation_->allocator->reset_peak(); }
std::size_t Program::before_backward_bytes() const { return implementation_->executor.before_backward_bytes(); }
std::int64_t Program::flops_per_run() const { return flops_of(implementation_->graph); }
std::size_t Program::launches_per_run() const { return implementation_->executor.launches(); }
std::vector<LaunchInfo> Program::launches() const {
  const Executor& executor = implementation_->executor;
  std::vector<LaunchInfo> launches;
  launches.reserve(executor.launches());
  for (std::size_t i = 0; i < executor.launches(); ++i) {
    launches.push_back({executor.launch_node(i), std::string(executor.kernel_name(i))});
  }
  return launches;
}

void Program::observe(LaunchObserver* observer) {
  implementation_->executor.set_observer(observer != nullptr ? observer : implementation_->marker.get());
}

const Graph& Program::graph() const { return implementation_->graph; }
Device& Program::device() { return *implementation_->device; }

}  // namespace ridgepoint
