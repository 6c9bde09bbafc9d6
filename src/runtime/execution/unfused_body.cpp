#include "runtime/execution/unfused_body.h"

#include <algorithm>
#include <utility>

#include "ir/rewriter.h"
#include "passes/pass.h"
#include "plan/arena.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

std::size_t operand_number(const Node& input) { return std::stoul(input_name(input)); }

// A dense value equal to the operand, for the readers of its input node.
Value dense_operand(Graph& graph, Value value, const TensorLayout& layout) {
  if (!layout.immediate) return copy(graph, value);
  const Value scalar = is_integer(layout.dtype) ? integer_constant(graph, layout.immediate_integer, layout.dtype)
                                                : constant(graph, *layout.immediate, layout.dtype);
  return broadcast(graph, scalar, layout.shape);
}

// Inserts what makes the operands dense, before every other node.
void insert_dense_operands(Graph& graph, std::span<const TensorLayout> inputs) {
  for (const NodeId id : graph.inputs()) {
    const Value value = graph.node(id).outputs[0];
    const TensorLayout& layout = inputs[operand_number(graph.node(id))];
    if (!layout.immediate && layout.is_dense()) continue;
    const std::vector<NodeId> readers = graph.uses()[value.id];
    if (readers.empty()) continue;
    graph.set_insertion_before(readers.front());
    const Value dense = dense_operand(graph, value, layout);
    for (const NodeId reader : readers) std::ranges::replace(graph.node(reader).inputs, value, dense);
    graph.set_insertion_at_end();
  }
}

// Every result gets memory of its own: what is a view, or a result twice, is copied, and what is not dense, which only
// a copy writes.
void insert_result_copies(Graph& graph, std::span<const TensorLayout> layouts) {
  std::vector<Value> seen;
  rewrite_outputs(graph, [&](Output& output) {
    const bool is_own = launches(graph.producer_node(output.value).op) && layouts[std::stoul(output.name)].is_dense();
    if (!is_own || std::ranges::find(seen, output.value) != seen.end()) output.value = copy(graph, output.value);
    seen.push_back(output.value);
  });
}

Graph op_by_op(const FusedBody& body, std::span<const TensorLayout> inputs, std::span<const TensorLayout> outputs) {
  Graph graph = body.graph;
  insert_dense_operands(graph, inputs);
  PassOptions options;
  options.target.operand_layout = [](const Graph&, const Node&, int) { return OperandLayout::any; };
  insert_copies(graph, options);
  insert_result_copies(graph, outputs);
  return graph;
}

}  // namespace

UnfusedBody::UnfusedBody(const FusedBody& body, std::span<const TensorLayout> inputs,
                         std::span<const TensorLayout> outputs, const MakeKernel& make_kernel)
    : graph_(op_by_op(body, inputs, outputs)) {
  const ExecutionPlan plan = make_plan(graph_);
  const std::vector<Place> buffers = place_buffers(plan);
  std::size_t widest = 0;
  for (const PlanStep& planned : plan.steps) {
    make_step(planned, buffers, inputs, outputs, make_kernel);
    widest = std::max(widest, steps_.back().operands.size());
  }
  addresses_.resize(widest);
}

std::vector<UnfusedBody::Place> UnfusedBody::place_buffers(const ExecutionPlan& plan) {
  std::vector<Place> places(plan.buffers.size());
  for (const NodeId id : graph_.inputs()) {
    const Node& node = graph_.node(id);
    places[plan.values[node.outputs[0].id].buffer] = {Place::In::input, operand_number(node)};
  }
  for (const Output& output : graph_.outputs())
    places[plan.values[output.value.id].buffer] = {Place::In::output, std::stoul(output.name)};
  // Operands and results of the fused node have memory; the others share what is packed here.
  std::vector<Lifetime> lifetimes = lifetimes_of(plan, std::vector<std::size_t>(plan.steps.size()));
  for (BufferId id = 0; id < places.size(); ++id) {
    if (places[id].in != Place::In::nowhere) lifetimes[id].bytes = 0;
  }
  const Packing packing = pack(lifetimes);
  for (BufferId id = 0; id < places.size(); ++id) {
    if (places[id].in == Place::In::nowhere) places[id] = {Place::In::workspace, 0, packing.offsets[id]};
  }
  intermediate_bytes_ = packing.bytes;
  return places;
}

void UnfusedBody::make_step(const PlanStep& planned, const std::vector<Place>& buffers,
                            std::span<const TensorLayout> inputs, std::span<const TensorLayout> outputs,
                            const MakeKernel& make_kernel) {
  Step step;
  step.input_count = planned.inputs.size();
  std::vector<TensorLayout> layouts;
  for (const std::vector<Operand>* operands : {&planned.inputs, &planned.outputs}) {
    for (const Operand& operand : *operands) {
      Place place = operand.buffer == kNoBuffer ? Place{} : buffers[operand.buffer];
      // Only copies read operands and write results that are not dense.
      const bool is_operand = place.in == Place::In::input && !inputs[place.index].is_dense();
      const bool is_result = place.in == Place::In::output && !outputs[place.index].is_dense();
      layouts.push_back(is_operand ? inputs[place.index] : is_result ? outputs[place.index] : operand.layout);
      place.offset_bytes += operand.offset_bytes;
      step.operands.push_back(place);
    }
  }
  const std::span<const TensorLayout> all = layouts;
  step.kernel =
      make_kernel({graph_, graph_.node(planned.node), all.first(step.input_count), all.subspan(step.input_count)});
  steps_.push_back(std::move(step));
}

void UnfusedBody::prepare() {
  for (Step& step : steps_) {
    step.kernel->prepare();
    kernel_bytes_ = std::max(kernel_bytes_, step.kernel->workspace_bytes());
  }
}

void UnfusedBody::launch(const LaunchArguments& arguments) {
  auto* const workspace = static_cast<std::byte*>(arguments.workspace);
  const auto address_of = [&](const Place& place) -> void* {
    switch (place.in) {
      case Place::In::input: return static_cast<std::byte*>(arguments.inputs[place.index]) + place.offset_bytes;
      case Place::In::output: return static_cast<std::byte*>(arguments.outputs[place.index]) + place.offset_bytes;
      case Place::In::workspace: return workspace + place.offset_bytes;
      default: return nullptr;
    }
  };
  for (Step& step : steps_) {
    for (std::size_t i = 0; i < step.operands.size(); ++i) addresses_[i] = address_of(step.operands[i]);
    void* const kernel_workspace = step.kernel->workspace_bytes() == 0 ? nullptr : workspace + intermediate_bytes_;
    step.kernel->launch({addresses_.data(), addresses_.data() + step.input_count, kernel_workspace});
  }
}

}  // namespace ridgepoint
