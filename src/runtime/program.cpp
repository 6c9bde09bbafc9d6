#include "ridgepoint/program.h"

#include <algorithm>
#include <map>

#include "compile/compile.h"
#include "core/first_call_clock.h"
#include "core/nearest.h"
#include "core/random/random_values.h"
#include "ir/convert.h"
#include "ir/stored_tensors.h"
#include "ops/rule.h"
#include "plan/lifetimes.h"
#include "plan/plan.h"
#include "ridgepoint/error.h"
#include "ridgepoint/ops.h"
#include "runtime/communicator.h"
#include "runtime/executor.h"
#include "runtime/index_bounds.h"
#include "runtime/make_kernels.h"
#include "runtime/plan_memory.h"
#include "runtime/read_tensor.h"

namespace ridgepoint {
namespace {

// A communicator, and no device, runs collectives.
OperandLayout operand_layout(const Device& device, const Graph& graph, const Node& node, int index) {
  const bool is_collective = op_class(node.op) == OpClass::collective;
  return is_collective ? OperandLayout::dense : device.operand_layout(graph, node, index);
}

PassTarget target_of(const Device& device) {
  return {.has_kernel = [&](const Graph& graph, const Node& node) { return device.has_kernel(graph, node); },
          .operand_layout = [&](const Graph& graph, const Node& node,
                                int i) { return operand_layout(device, graph, node, i); },
          .writes_strided = [&](const Graph& graph, const Node& node) { return device.writes_strided(graph, node); }};
}

Graph compiled(Graph graph, const Device& device, const ProgramOptions& options) {
  const InStage in_stage(FirstCallStage::passes);
  CompileOptions compile_options = options.compile;
  if (!compile_options.stop_point) compile_options.stop_point = options.stop_point;
  return compile(std::move(graph), device, compile_options);
}

ExecutionPlan planned(const Graph& graph, Compile level) {
  const InStage in_stage(FirstCallStage::plan);
  return make_plan(graph, {.takes_over = level != Compile::off});
}

// A named tensor, and the input that stores it.
struct InputSlot {
  StoredTensor tensor;
  Value value;
  std::int64_t index_bound = INT64_MAX;  // exclusive; of int64 data
};

// Storage of consecutive elements of an input: all of them, a low copy, or the part of a rank.
struct Store {
  Value value;
  std::int64_t first_element = 0;
  std::int64_t elements = 0;
};

}  // namespace

struct ProgramPlan::Implementation {
  Implementation(Graph source, std::shared_ptr<Device> target, const ProgramOptions& options)
      : device(std::move(target)),
        captures(options.compile.level == Compile::full),
        parallel(options.compile.parallel),
        allocator(options.allocator.value_or(default_allocator(options.compile.level))),
        bounds(index_bounds(source)),
        graph(compiled(std::move(source), *device, options)),
        inputs(input_slots(graph, bounds)),
        plan(planned(graph, options.compile.level)) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      input_index.emplace(inputs[i].tensor.name, i);
      const Value value = inputs[i].value;
      if (!stores.contains(value)) stores[value].push_back(store_of(value));
    }
    for (const NodeId id : graph.inputs(Role::state)) add_store(graph.node(id));
  }

  static std::vector<InputSlot> input_slots(const Graph& graph, const std::map<std::string, std::int64_t>& bounds) {
    std::vector<InputSlot> slots;
    for (const NodeId id : graph.inputs()) {
      const Node& node = graph.node(id);
      for (StoredTensor& tensor : stored_tensors(graph, node)) {
        InputSlot slot{std::move(tensor), node.outputs[0]};
        if (const auto bound = bounds.find(slot.tensor.name); bound != bounds.end()) slot.index_bound = bound->second;
        slots.push_back(std::move(slot));
      }
    }
    return slots;
  }

  // Of an input that is a part, the elements that it stores of the whole.
  Store store_of(Value value) const {
    const std::int64_t elements = graph.type(value).elements();
    return {value, graph.producer_node(value).attributes.get_or<std::int64_t>(kPart, 0) * elements, elements};
  }

  // Adds a state that holds a copy, or a part, of a parameter to its stores.
  void add_store(const Node& state) {
    const Value value = state.outputs[0];
    for (const std::string_view key : {kCopyOf, kPartOf}) {
      if (!state.attributes.contains(key)) continue;
      const std::optional<Value> parameter = graph.find_input(state.attributes.get<std::string>(key));
      if (!parameter) continue;
      Store store = store_of(value);
      if (key == kCopyOf) store.first_element = stores.at(*parameter)[0].first_element;
      stores[*parameter].push_back(store);
    }
  }

  const InputSlot& find_input(std::string_view name) const {
    const auto found = input_index.find(name);
    if (found != input_index.end()) return inputs[found->second];
    std::vector<std::string_view> names;
    for (const InputSlot& slot : inputs) names.push_back(slot.tensor.name);
    throw Error("the program has no input '" + std::string(name) + "'" + hint(name, names), ErrorKind::usage);
  }

  std::shared_ptr<Device> device;
  bool captures;
  ParallelOptions parallel;
  AllocatorKind allocator;
  std::map<std::string, std::int64_t> bounds;
  Graph graph;
  std::vector<InputSlot> inputs;
  std::map<std::string, std::size_t, std::less<>> input_index;
  std::map<Value, std::vector<Store>> stores;  // by input, which is the first
  ExecutionPlan plan;
};

Graph compile(Graph forward, const Device& device, const CompileOptions& options) {
  return compile(std::move(forward), target_of(device), options);
}

ProgramPlan::ProgramPlan(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options)
    : implementation_(std::make_shared<const Implementation>(std::move(graph), std::move(device), options)) {}

const Graph& ProgramPlan::graph() const { return implementation_->graph; }
AllocatorKind ProgramPlan::allocator() const { return implementation_->allocator; }
const std::shared_ptr<Device>& ProgramPlan::device() const { return implementation_->device; }

struct Program::Implementation {
  Implementation(std::shared_ptr<const ProgramPlan::Implementation> planned, const std::shared_ptr<Device>& on,
                 const ProgramOptions& options)
      : source(std::move(planned)),
        device(on != nullptr ? on : source->device),
        communicator(options.communicator),
        graph(source->graph),
        plan(source->plan),
        kernels(make_kernels(graph, plan, *device, options.communicator.get(), options.stop_point)),
        lifetimes(lifetimes_of(plan, workspace_bytes_of(kernels))),
        allocator(make_allocator(source->allocator, graph, plan, lifetimes, *device, options.memory_trace)),
        executor(graph, plan, kernels, *device, *allocator, source->captures, options.stop_point) {
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

  // Casts the tensor to the type of the value, and writes it there from `first_element` on.
  void write(Value value, const HostTensor& tensor, std::int64_t first_element = 0) {
    const DType dtype = graph.type(value).dtype;
    if (tensor.type.dtype != dtype) {
      cast.type = {dtype, tensor.type.shape};
      cast.data.resize(cast.type.bytes());
      convert(tensor, cast);
      return write(value, cast, first_element);
    }
    device->copy_to_device(element(value, first_element), tensor.data.data(), tensor.data.size());
  }

  // What a store has of the tensor of a slot: the elements from `begin` to `end` of the tensor.
  struct Overlap {
    Value value;
    std::int64_t begin = 0, end = 0;
    std::int64_t first_in_store = 0;
  };
  std::vector<Overlap> overlaps(const InputSlot& slot) const {
    std::vector<Overlap> found;
    const std::int64_t first = slot.tensor.first_element;
    for (const Store& store : source->stores.at(slot.value)) {
      const std::int64_t begin = std::max(first, store.first_element);
      const std::int64_t end = std::min(first + slot.tensor.type.elements(), store.first_element + store.elements);
      if (begin < end) found.push_back({store.value, begin - first, end - first, begin - store.first_element});
    }
    return found;
  }
  static bool is_whole(const Overlap& overlap, const StoredTensor& tensor) {
    return overlap.end - overlap.begin == tensor.type.elements();
  }

  // Writes what a store has of the tensor.
  void write_overlap(const Overlap& overlap, const HostTensor& tensor) {
    HostTensor elements({tensor.type.dtype, Shape{overlap.end - overlap.begin}});
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(tensor.type.dtype));
    std::copy_n(tensor.data.begin() + overlap.begin * element_bytes, elements.data.size(), elements.data.begin());
    write(overlap.value, elements, overlap.first_in_store);
  }

  void write_random(const Overlap& overlap, const StoredTensor& tensor, const TruncatedNormal& distribution,
                    std::uint64_t seed, const StopPoint& stop_point) {
    const auto stream = random_stream(tensor.name, seed);
    if (is_whole(overlap, tensor)) {
      device->fill_random(element(overlap.value, overlap.first_in_store), graph.type(overlap.value).dtype,
                          tensor.type.elements(), distribution, stream, stop_point);
      return;
    }
    HostTensor elements({DType::fp32, Shape{overlap.end - overlap.begin}});
    fill_random(elements.as<float>(), distribution, stream, overlap.begin, stop_point);
    write(overlap.value, elements, overlap.first_in_store);
  }

  // An input of which each rank stores a part, as one dimension. All ranks must call this, in the same order.
  HostTensor read_from_all_ranks(Value part) const {
    Graph gather;
    const Value mine = input(gather, "part", graph.type(part), Role::data);
    gather.add_output({"whole", all_gather(gather, {mine}, source->parallel.data)[0]});
    Program program(std::move(gather), device, {.communicator = communicator});
    program.write_input("part", read_tensor(*device, dense_layout(graph.type(part)), element(part, 0)));
    program.run();
    program.synchronize();
    return program.read_output("whole");
  }

  // Null where the value has no memory.
  std::byte* element(Value value, std::int64_t index) const {
    auto* address = static_cast<std::byte*>(executor.address(plan.values[value.id]));
    return address == nullptr ? nullptr
                              : address + static_cast<std::size_t>(index) * size_bytes(graph.type(value).dtype);
  }

  // Throws Error with `message` when the value has no memory.
  HostTensor read(Value value, const char* message = "an output was read before the program ran") const {
    const void* address = executor.address(plan.values[value.id]);
    if (address == nullptr) throw Error(message, ErrorKind::usage);
    return read_tensor(*device, plan.values[value.id].layout, address);
  }

  std::shared_ptr<const ProgramPlan::Implementation> source;
  std::shared_ptr<Device> device;
  std::shared_ptr<Communicator> communicator;
  const Graph& graph;
  const ExecutionPlan& plan;
  Kernels kernels;
  std::vector<Lifetime> lifetimes;
  std::unique_ptr<Allocator> allocator;
  HostTensor cast;                         // of write(), kept: new memory takes as long as the conversion
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
  const StoredTensor& stored = slot.tensor;
  if (!(tensor.type == stored.type)) {
    throw Error("input '" + stored.name + "' is " + stored.type.to_string() + "; the given tensor is " +
                    tensor.type.to_string(),
                ErrorKind::usage);
  }
  if (slot.index_bound != INT64_MAX) {
    const std::span<const std::int64_t> indices = tensor.as<std::int64_t>();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= slot.index_bound) {
        throw Error("element " + std::to_string(i) + " of '" + stored.name + "' is " + std::to_string(indices[i]) +
                        "; indices must be from 0 to " + std::to_string(slot.index_bound - 1),
                    ErrorKind::usage);
      }
    }
  }
  for (const Implementation::Overlap& overlap : self.overlaps(slot)) {
    if (self.is_whole(overlap, stored)) {
      self.write(overlap.value, tensor, overlap.first_in_store);
    } else {
      self.write_overlap(overlap, tensor);
    }
  }
}

void Program::write_random(std::string_view name, const TruncatedNormal& distribution, std::uint64_t seed,
                           const StopPoint& stop_point) {
  Implementation& self = *implementation_;
  const InputSlot& slot = self.find_input(name);
  const StoredTensor& stored = slot.tensor;
  if (!is_floating(stored.type.dtype)) {
    throw Error("input '" + stored.name + "' is " + stored.type.to_string() + "; only floating inputs can be random",
                ErrorKind::usage);
  }
  for (const Implementation::Overlap& overlap : self.overlaps(slot))
    self.write_random(overlap, stored, distribution, seed, stop_point);
}

std::optional<std::int64_t> Program::index_bound(std::string_view name) const {
  const std::int64_t bound = implementation_->find_input(name).index_bound;
  return bound == INT64_MAX ? std::nullopt : std::optional(bound);
}

HostTensor Program::read_input(std::string_view name) const {
  const Implementation& self = *implementation_;
  const InputSlot& slot = self.find_input(name);
  const StoredTensor& stored = slot.tensor;
  const DType dtype = self.graph.type(slot.value).dtype;
  HostTensor tensor({dtype, stored.type.shape});
  if (self.graph.producer_node(slot.value).attributes.contains(kDeclaredShape)) {
    const HostTensor whole = self.read_from_all_ranks(slot.value);
    const auto first = stored.first_element * static_cast<std::int64_t>(size_bytes(dtype));
    std::copy_n(whole.data.begin() + first, tensor.data.size(), tensor.data.begin());
  } else {
    tensor = read_tensor(*self.device, dense_layout(tensor.type), self.element(slot.value, stored.first_element));
  }
  return tensor.type.dtype == stored.type.dtype ? tensor : convert(tensor, stored.type.dtype);
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

void Program::time_phases() { implementation_->executor.time_phases(); }
PhaseTimes Program::phase_times() const { return implementation_->executor.phase_times(); }
bool Program::is_captured() const { return implementation_->executor.is_captured(); }
const std::string& Program::capture_problem() const { return implementation_->executor.capture_problem(); }
const std::vector<std::string>& Program::unfused_bodies() const { return implementation_->executor.unfused(); }

MemoryUse Program::memory_use() const { return implementation_->allocator->use(); }
std::uint64_t Program::memory_layout_hash() const { return implementation_->allocator->layout_hash(); }
void Program::reset_peak_memory() {
  implementation_->allocator->reset_peak();
  implementation_->executor.count_next_run();
}
std::vector<PhaseMemory> Program::memory_by_phase() const {
  std::vector<PhaseMemory> phases;
  for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
    const Executor::PhasePeak& peak = implementation_->executor.phase_peaks()[phase];
    if (!peak.has_launches) continue;
    PhaseMemory& memory = phases.emplace_back(PhaseMemory{static_cast<Phase>(phase), peak.bytes});
    for (std::size_t i = 0; i < kMemoryCategoryCount; ++i)
      memory.categories.emplace_back(name(static_cast<MemoryCategory>(i)), peak.categories[i]);
  }
  return phases;
}

std::size_t Program::liveness_lower_bound_bytes() const { return liveness_lower_bound(implementation_->lifetimes); }
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
const ParallelOptions& Program::parallel() const { return implementation_->source->parallel; }
Device& Program::device() { return *implementation_->device; }

}  // namespace ridgepoint
