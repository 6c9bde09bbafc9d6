#include "runtime/program/program_state.h"

#include <algorithm>
#include <map>
#include <memory>
#include <ranges>
#include <unordered_map>
#include <vector>
#include "compile/compile.h"
#include "core/first_call_clock.h"
#include "core/text/nearest.h"
#include "core/text/units.h"
#include "ir/queries.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "runtime/execution/plan_memory.h"

namespace ridgepoint {
namespace {

// A communicator, and no device, runs collectives; transfers copy bytes.
OperandLayout operand_layout(const Device& device, const Graph& graph, const Node& node, int index) {
  return runs_beside(node.op) ? OperandLayout::dense : device.operand_layout(graph, node, index);
}

// The answers of a device about fused nodes, which depend on their bodies alone. Passes ask about the nodes of each
// layer, whose bodies are the same.
class KnownBodies {
 public:
  // The index of an operand, or one of these.
  static constexpr int kHasKernel = -1, kWritesStrided = -2, kPadsRows = -3;

  template <typename Ask>
  auto answer(const Node& node, int question, const Ask& ask) {
    using Answer = decltype(ask());
    if (node.body == nullptr) return ask();
    std::map<int, int>& known = known_[node.body];
    const auto found = known.find(question);
    if (found != known.end()) return static_cast<Answer>(found->second);
    const Answer asked = ask();
    known.emplace(question, static_cast<int>(asked));
    return asked;
  }

 private:
  std::unordered_map<std::shared_ptr<const FusedBody>, std::map<int, int>> known_;
};

PassTarget target_of(const Device& device) {
  const auto known = std::make_shared<KnownBodies>();
  const auto answer = [known](const Node& node, int question, const auto& ask) {
    return known->answer(node, question, ask);
  };
  return {.has_kernel =
              [&device, answer](const Graph& graph, const Node& node) {
                return answer(node, KnownBodies::kHasKernel, [&] { return device.has_kernel(graph, node); });
              },
          .operand_layout =
              [&device, answer](const Graph& graph, const Node& node, int i) {
                return answer(node, i, [&] { return operand_layout(device, graph, node, i); });
              },
          .runs_update_beside = [&device](const Graph& graph,
                                          const Node& node) { return device.runs_update_beside(graph, node); },
          .writes_strided =
              [&device, answer](const Graph& graph, const Node& node) {
                return answer(node, KnownBodies::kWritesStrided, [&] { return device.writes_strided(graph, node); });
              },
          .pads_rows =
              [&device, answer](const Graph& graph, const Node& node) {
                return answer(node, KnownBodies::kPadsRows, [&] { return device.pads_rows(graph, node); });
              }};
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

void require_host_memory(const ExecutionPlan& plan, const CompileOptions& options) {
  const std::optional<std::size_t>& limit_bytes = options.host_memory_limit_bytes;
  if (!limit_bytes || plan.host.bytes <= *limit_bytes) return;
  throw Error("--offload " + std::string(name(options.offload)) + " needs " + format_bytes(plan.host.bytes) +
                  " of the host's memory, and may take " + format_bytes(*limit_bytes) +
                  "; raise --host-memory, offload less" +
                  (includes(options.offload, Offload::optimizer)
                       ? ", choose an optimizer with fewer states, or put its states on a disk: --offload-folder"
                       : ""),
              ErrorKind::unsupported);
}

// For each integer input, by name, the number of rows of the smallest table that it indexes, directly or through views;
// INT64_MAX if it indexes none.
std::map<std::string, std::int64_t> index_bounds(const Graph& graph) {
  std::vector<std::int64_t> bounds(graph.value_count(), INT64_MAX);
  const auto bound = [&](Value indices, std::int64_t end) { bounds[indices.id] = std::min(bounds[indices.id], end); };
  for (const NodeId id : std::views::reverse(graph.order())) {
    const Node& node = graph.node(id);
    if (op_class(node.op) == OpClass::view) {
      for (const Value part : node.outputs) bound(node.inputs[0], bounds[part.id]);
    }
    if (node.op == Op::embedding) bound(node.inputs[1], graph.type(node.inputs[0]).shape[0]);
    if (node.op == Op::embedding_backward) bound(node.inputs[1], node.attributes.get<std::int64_t>("rows"));
    if (node.op == Op::embedding_backward_add) bound(node.inputs[1], graph.type(node.inputs[2]).shape[0]);
    if (node.op == Op::cross_entropy) bound(node.inputs[1], graph.type(node.inputs[0]).shape[1]);
  }
  std::map<std::string, std::int64_t> by_input;
  for (const NodeId id : graph.inputs()) {
    const Value value = graph.node(id).outputs[0];
    bound(value, graph.node(id).attributes.get_or(kIndexedRows, std::int64_t{INT64_MAX}));
    if (graph.type(value).dtype == DType::int64) by_input[input_name(graph.node(id))] = bounds[value.id];
  }
  return by_input;
}

}  // namespace

ProgramPlan::Implementation::Implementation(Graph source, std::shared_ptr<Device> target, const ProgramOptions& options)
    : device(std::move(target)),
      captures(options.compile.level == Compile::full),
      parallel(options.compile.parallel),
      allocator(options.allocator.value_or(default_allocator(options.compile.level))),
      offload_folder(options.compile.offload_folder),
      bounds(index_bounds(source)),
      graph(compiled(std::move(source), *device, options)),
      inputs(input_slots(graph, bounds)),
      plan(planned(graph, options.compile.level)) {
  require_host_memory(plan, options.compile);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    input_index.emplace(inputs[i].tensor.name, i);
    const Value value = inputs[i].value;
    if (!stores.contains(value)) stores[value].push_back(store_of(value));
  }
  for (const NodeId id : graph.inputs(Role::state)) {
    const Node& state = graph.node(id);
    add_store(state);
    if (state.attributes.contains(kScaleOf))
      scales.emplace(graph.find_input(state.attributes.get<std::string>(kScaleOf)).value(), state.outputs[0]);
  }
}

std::vector<ProgramPlan::Implementation::InputSlot> ProgramPlan::Implementation::input_slots(
    const Graph& graph, const std::map<std::string, std::int64_t>& bounds) {
  std::vector<InputSlot> slots;
  for (const NodeId id : graph.inputs()) {
    const Node& node = graph.node(id);
    for (StoredTensor& tensor : stored_tensors(graph, node)) {
      InputSlot slot{std::move(tensor), node.outputs[0]};
      if (const auto bound = bounds.find(slot.tensor.name); bound != bounds.end()) slot.index_bound = bound->second;
      slot.ignored_index = graph.node(id).attributes.get_or(kIgnoredIndex, std::int64_t{0});
      slots.push_back(std::move(slot));
    }
  }
  return slots;
}

ProgramPlan::Implementation::Store ProgramPlan::Implementation::store_of(Value value) const {
  const std::int64_t elements = graph.type(value).elements();
  return {value, graph.producer_node(value).attributes.get_or<std::int64_t>(kPart, 0) * elements, elements};
}

void ProgramPlan::Implementation::add_store(const Node& state) {
  const Value value = state.outputs[0];
  for (const std::string_view key : {kCopyOf, kLowHalfOf, kPartOf}) {
    if (!state.attributes.contains(key)) continue;
    const std::optional<Value> parameter = graph.find_input(state.attributes.get<std::string>(key));
    if (!parameter) continue;
    Store store = store_of(value);
    if (key != kPartOf) store.first_element = stores.at(*parameter)[0].first_element;
    stores[*parameter].push_back(store);
  }
}

const ProgramPlan::Implementation::InputSlot& ProgramPlan::Implementation::find_input(std::string_view name) const {
  const auto found = input_index.find(name);
  if (found != input_index.end()) return inputs[found->second];
  std::vector<std::string_view> names;
  for (const InputSlot& slot : inputs) names.push_back(slot.tensor.name);
  throw Error("the program has no input '" + std::string(name) + "'" + hint(name, names), ErrorKind::usage);
}

Graph compile(Graph forward, const Device& device, const CompileOptions& options) {
  return compile(std::move(forward), target_of(device), options);
}

ProgramPlan::ProgramPlan(Graph graph, std::shared_ptr<Device> device, const ProgramOptions& options)
    : implementation_(std::make_shared<const Implementation>(std::move(graph), std::move(device), options)) {}

const Graph& ProgramPlan::graph() const { return implementation_->graph; }
const ExecutionPlan& ProgramPlan::execution() const { return implementation_->plan; }
AllocatorKind ProgramPlan::allocator() const { return implementation_->allocator; }
const std::shared_ptr<Device>& ProgramPlan::device() const { return implementation_->device; }

}  // namespace ridgepoint
