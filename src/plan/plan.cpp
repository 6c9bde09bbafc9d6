#include "plan/plan.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "core/checked.h"
#include "core/rounding.h"
#include "ir/stored_tensors.h"
#include "lowering/row_program.h"
#include "ops/collectives.h"
#include "ops/overwrite.h"
#include "ops/rule.h"
#include "ops/rules/optimizer/optimizer.h"
#include "plan/arena.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kNever = SIZE_MAX;

[[noreturn]] void refuse(const Graph& graph, const Update& update, const std::string& why) {
  const Node& input = graph.producer_node(update.input);
  throw Error("the update of input '" + input_name(input) + "' cannot be made in place: " + why +
                  "; run the pass make_updates_in_place first",
              ErrorKind::usage);
}

[[noreturn]] void refuse_producer(const Graph& graph, const Update& update) {
  const Node& producer = graph.producer_node(update.value);
  const std::string op = "'" + std::string(name(producer.op)) + "'";
  if (!launches(producer.op)) refuse(graph, update, "its value is the result of " + op + ", which runs no kernel");
  refuse(graph, update, op + " reads the input in another order than it writes the new value");
}

// Throws Error (usage) unless, for every update, a kernel computes the new value and can write it over the input
// (ops/layout.h), the value updates no other input, and nothing reads the input afterwards, through views or as an
// output. The pass make_updates_in_place ensures this. `layouts` are those of all values.
void check_updates(const Graph& graph, std::span<const ValueLayout> layouts) {
  std::vector<const Update*> update_of(graph.value_count());  // by value
  const std::vector<bool> in_place = are_written_in_place(graph, graph.updates(), layouts);
  for (std::size_t i = 0; i < in_place.size(); ++i) {
    const Update& update = graph.updates()[i];
    if (!in_place[i]) refuse_producer(graph, update);
    if (update_of[update.value.id] != nullptr) refuse(graph, update, "its value also updates another input");
    update_of[update.value.id] = &update;
  }
  std::vector<const Update*> written(graph.value_count());  // by input: set once its new value is written
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!launches(node.op)) continue;
    for (const Value value : node.inputs) {
      const Update* update = written[layouts[value.id].root.id];
      if (update == nullptr) continue;
      refuse(graph, *update, "'" + std::string(name(node.op)) + "' reads the old value after the new one is written");
    }
    for (const Value value : node.outputs) {
      if (update_of[value.id] != nullptr) written[update_of[value.id]->input.id] = update_of[value.id];
    }
  }
  for (const Output& output : graph.outputs()) {
    const Update* update = written[layouts[output.value.id].root.id];
    if (update != nullptr) refuse(graph, *update, "output '" + output.name + "' is the old value of the input");
  }
}

std::vector<TensorLayout> layouts_of(std::span<const Value> values, std::span<const ValueLayout> layouts) {
  std::vector<TensorLayout> result;
  for (const Value value : values) result.push_back(layouts[value.id].layout);
  return result;
}

// The back ends store elements in the last sweep over a row, after they have read those at the same addresses.
bool reads_elements_first(const Graph& graph, const Node& node, Value target, std::span<const ValueLayout> layouts) {
  const auto programs =
      lower_to_rows(body_of(graph, node), layouts_of(node.inputs, layouts), layouts_of(node.outputs, layouts));
  if (!programs || programs->size() != 1 || programs->front().outputs.size() != 1) return false;
  const RowOutput& output = programs->front().outputs.front();
  if (output.store != RowStore::element) return false;
  return std::ranges::all_of(programs->front().instructions, [&](const RowInstruction& instruction) {
    if (instruction.kind != RowKind::load) return true;
    const Value operand = node.inputs[static_cast<std::size_t>(instruction.input)];
    return layouts[operand.id].root != target || instruction.access == output.access;
  });
}

// Whether the result of a node, which has storage of its own, may take over the storage `target` of operands that
// nothing else reads. It may if its op donates these operands (ops/rule.h), or if it is elementwise or fused and its
// kernel reads each of their elements before it writes the element of the result at the same place. A node with several
// results may not: if NVRTC rejects its body, the ops run one by one, and would write one result before they read the
// operands of the next. `layouts` are those of all values.
bool can_take_over(const Graph& graph, const Node& node, Value target, std::span<const ValueLayout> layouts) {
  if (node.outputs.size() != 1) return false;
  if (rule(node.op).donations != nullptr) return can_write_over(node, 0, target, layouts);
  const bool is_by_element = node.op == Op::fused || op_class(node.op) == OpClass::elementwise;
  return is_by_element && reads_elements_first(graph, node, target, layouts);
}

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options)
      : graph_(graph), options_(options), layouts_(value_layouts(graph)), buffer_of_(graph.value_count(), kNoBuffer) {}

  ExecutionPlan run() {
    find_update_targets();
    find_last_readers();
    place_inputs();
    make_steps();
    mark_outputs();
    find_waits();
    find_lifetimes();
    place_on_disk();
    place_on_host();
    categorise();
    record_values();
    return std::move(plan_);
  }

 private:
  void find_update_targets() {
    check_updates(graph_, layouts_);
    update_target_.resize(graph_.value_count());
    for (const Update& update : graph_.updates()) update_target_[update.value.id] = update.input;
  }

  void find_last_readers() {
    last_reader_.resize(graph_.value_count());
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!launches(node.op)) continue;
      for (const Value value : node.inputs) last_reader_[layouts_[value.id].root.id] = id;
    }
    protect_operands_of_collectives();
    for (const Output& output : graph_.outputs()) last_reader_[layouts_[output.value.id].root.id] = {};
  }

  // Collectives and transfers still read their operands while later nodes run, so no later node may take over that
  // storage.
  void protect_operands_of_collectives() {
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!runs_beside(node)) continue;
      for (const Value value : node.inputs) {
        NodeId& reader = last_reader_[layouts_[value.id].root.id];
        if (reader != id) reader = {};
      }
    }
  }

  BufferId add_buffer(Value value) {
    plan_.buffers.push_back({storage_type(graph_, value).bytes(), MemoryCategory::temporary, value});
    return buffer_of_[value.id] = static_cast<BufferId>(plan_.buffers.size() - 1);
  }

  void place_inputs() {
    for (const NodeId id : graph_.inputs()) {
      const Node& node = graph_.node(id);
      Buffer& buffer = plan_.buffers[add_buffer(node.outputs[0])];
      buffer.persistent = true;
      buffer.on_host = node.attributes.get_or(kOnHost, false);
      buffer.on_disk = buffer.on_host && node.attributes.get_or(kOnDisk, false);
      const Role role = input_role(node);
      const bool is_parameter = role == Role::parameter || node.attributes.contains(kScaleOf);
      buffer.category = is_parameter          ? MemoryCategory::parameter
                        : role == Role::state ? MemoryCategory::optimizer_state
                                              : MemoryCategory::data;
    }
  }

  void make_steps() {
    Phase before_optimizer = Phase::optimizer;  // of the last step of another phase
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!launches(node.op)) continue;
      const bool is_backward = node.phase == Phase::backward || node.phase == Phase::recompute;
      if (is_backward && !plan_.backward_begin) plan_.backward_begin = plan_.steps.size();
      PlanStep step;
      step.node = id;
      step.phase = node.attributes.get_or(kBeside, false) ? before_optimizer : node.phase;
      if (step.phase != Phase::optimizer) before_optimizer = step.phase;
      for (const Value value : node.inputs) step.inputs.push_back(operand(value));
      check_memories(node, step);
      for (const Value value : node.outputs) place_output(node, value, step);
      plan_.steps.push_back(std::move(step));
    }
  }

  // Kernels reach the memory of the device alone.
  void check_memories(const Node& node, const PlanStep& step) const {
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const bool is_on_host = step.inputs[i].buffer != kNoBuffer && plan_.buffers[step.inputs[i].buffer].on_host;
      if (is_on_host == (node.op == Op::copy_from_host)) continue;
      throw Error("operand " + std::to_string(i) + " of '" + std::string(name(node.op)) +
                      "' lies in the memory of the " +
                      (is_on_host ? "host; copy it from there first" : "device; a copy must bring it to the host"),
                  ErrorKind::usage);
    }
  }

  void check_memory_of_update(const Node& node, Value input) const {
    if (plan_.buffers[buffer_of_[input.id]].on_host == (node.op == Op::copy_to_host)) return;
    throw Error("'" + std::string(name(node.op)) + "' cannot update input '" + input_name(graph_.producer_node(input)) +
                    "', which lies in the other memory",
                ErrorKind::usage);
  }

  Operand operand(Value value) const {
    const ValueLayout& layout = layouts_[value.id];
    Operand result;
    result.layout = layout.layout;
    if (layout.layout.immediate) return result;
    result.buffer = buffer_of_[layout.root.id];
    result.offset_bytes = static_cast<std::size_t>(layout.offset) * size_bytes(layout.layout.dtype);
    return result;
  }

  void place_output(const Node& node, Value value, PlanStep& step) {
    const Value root = layouts_[value.id].root;
    if (const Value target = update_target_[value.id]; target.valid()) {
      check_memory_of_update(node, target);
      buffer_of_[value.id] = buffer_of_[target.id];
    } else if (node.op == Op::copy_to_host) {
      Buffer& buffer = plan_.buffers[add_buffer(value)];
      buffer.persistent = buffer.on_host = true;
      buffer.category = MemoryCategory::activation;
    } else if (buffer_of_[root.id] == kNoBuffer) {
      if (const Value storage = storage_to_take_over(node, value, step.node); storage.valid()) {
        buffer_of_[root.id] = buffer_of_[storage.id];
      } else {
        step.allocate.push_back(add_buffer(root));
      }
    }
    step.outputs.push_back(operand(value));
  }

  // Sums of which a run has many, each over the one before.
  static bool adds_in_place(const Node& node) {
    return addend_operand(node).has_value() || node.op == Op::embedding_backward_add;
  }

  // The storage of an operand that the result may take over, as a whole; invalid if there is none.
  Value storage_to_take_over(const Node& node, Value result, NodeId reader) const {
    if (layouts_[result.id].root != result) return {};
    if (runs_beside(node) || optimizer_layout(node)) return storage_of_donated(node, result, reader);
    if (!options_.takes_over && !adds_in_place(node)) return {};
    for (const Value value : node.inputs) {
      const ValueLayout& operand = layouts_[value.id];
      if (operand.layout.immediate || last_reader_[operand.root.id] != reader) continue;
      const Buffer& buffer = plan_.buffers[buffer_of_[operand.root.id]];
      if (buffer.persistent || buffer.bytes != storage_type(graph_, result).bytes()) continue;
      if (can_take_over(graph_, node, operand.root, layouts_)) return operand.root;
    }
    return {};
  }

  // A collective always writes its results over its operands, which take as much memory as the gradients. An optimizer
  // does so if its states were copied from the host.
  Value storage_of_donated(const Node& node, Value result, NodeId reader) const {
    const auto index = static_cast<std::size_t>(std::ranges::find(node.outputs, result) - node.outputs.begin());
    const std::size_t donated = donated_operand(node, index);
    if (donated == SIZE_MAX) return {};
    const Value root = layouts_[node.inputs[donated].id].root;
    if (last_reader_[root.id] != reader || !can_write_over(node, index, root, layouts_)) return {};
    const Buffer& buffer = plan_.buffers[buffer_of_[root.id]];
    return buffer.persistent || buffer.bytes != graph_.type(result).bytes() ? Value{} : root;
  }

  void mark_outputs() {
    for (const Output& output : graph_.outputs()) {
      const BufferId buffer = buffer_of_[layouts_[output.value.id].root.id];
      if (!plan_.buffers[buffer].persistent) plan_.buffers[buffer].output = true;
    }
  }

  // Finds the step that waits for each collective, or the last step if none does (collective_ends_).
  void find_waits() {
    collective_ends_.assign(plan_.steps.size(), kNever);
    std::vector<std::vector<std::size_t>> reads(plan_.buffers.size()), writes(plan_.buffers.size());  // by collectives
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const PlanStep& step = plan_.steps[i];
      for (const Operand& use : step.inputs) {
        if (use.buffer != kNoBuffer) wait_for_operand(writes[use.buffer], i);
      }
      for (const Operand& made : step.outputs) {
        wait_for_operand(writes[made.buffer], i);
        wait_for_operand(reads[made.buffer], i);
      }
      if (!runs_beside(graph_.node(step.node))) {
        wait_for_exposed(i);
        continue;
      }
      wait_for_overdue(i);
      for (const Operand& use : step.inputs) {
        if (use.buffer != kNoBuffer) reads[use.buffer].push_back(i);
      }
      for (const Operand& made : step.outputs) writes[made.buffer].push_back(i);
      running_.push_back(i);
    }
    for (const std::size_t collective : running_) collective_ends_[collective] = plan_.steps.size() - 1;
    plan_.waits_at_end = running_;
  }

  // A class of launches may have only so many under way: the launch of step `next` waits for the older ones of its
  // class.
  void wait_for_overdue(std::size_t next) {
    const auto class_of = [&](std::size_t step) { return op_class(graph_.node(plan_.steps[step].node).op); };
    std::vector<std::size_t> overdue;
    std::int64_t behind = 1;
    for (std::size_t i = running_.size(); i-- > 0;) {
      if (class_of(running_[i]) != class_of(next)) continue;
      const Node& node = graph_.node(plan_.steps[running_[i]].node);
      if (behind++ >= node.attributes.get_or<std::int64_t>(kInFlight, INT64_MAX)) overdue.push_back(running_[i]);
    }
    std::ranges::reverse(overdue);
    wait_for(overdue, next);
  }

  void wait_for_exposed(std::size_t next) {
    std::vector<std::size_t> exposed;
    std::ranges::copy_if(running_, std::back_inserter(exposed), [&](std::size_t collective) {
      return graph_.node(plan_.steps[collective].node).attributes.get_or(kExposed, false);
    });
    wait_for(exposed, next);
  }

  // Step `waiting` waits for the steps that use one of its operands or results. An update beside others waits for
  // collectives by itself, so other steps may still have to wait for them.
  void wait_for_operand(std::vector<std::size_t>& earlier, std::size_t waiting) {
    if (!graph_.node(plan_.steps[waiting].node).attributes.get_or(kBeside, false)) return wait_for(earlier, waiting);
    std::vector<std::size_t>& own = plan_.steps[waiting].own_waits;
    std::vector<std::size_t> others;
    for (const std::size_t step : earlier) {
      if (op_class(graph_.node(plan_.steps[step].node).op) != OpClass::collective) {
        others.push_back(step);
      } else if (std::ranges::count(running_, step) > 0 && std::ranges::count(own, step) == 0) {
        own.push_back(step);
      }
    }
    wait_for(others, waiting);
  }

  // Step `waiting` waits for the collectives in the list that still run. An update among them ends the collectives for
  // which it waits.
  void wait_for(std::vector<std::size_t>& collectives, std::size_t waiting) {
    for (const std::size_t collective : std::exchange(collectives, {})) {
      if (std::erase(running_, collective) == 0) continue;
      collective_ends_[collective] = waiting;
      plan_.steps[waiting].waits.push_back(collective);
      std::vector<std::size_t> ended = plan_.steps[collective].own_waits;
      wait_for(ended, waiting);
    }
  }

  void find_lifetimes() {
    std::vector<std::size_t> last(plan_.buffers.size(), kNever);
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      for (const Operand& use : plan_.steps[i].inputs) {
        if (use.buffer != kNoBuffer) last[use.buffer] = i;
      }
      for (const Operand& made : plan_.steps[i].outputs) last[made.buffer] = i;
    }
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      if (collective_ends_[i] == kNever) continue;
      const auto extend = [&](const Operand& used) {
        if (used.buffer != kNoBuffer) last[used.buffer] = std::max(last[used.buffer], collective_ends_[i]);
      };
      std::ranges::for_each(plan_.steps[i].inputs, extend);
      std::ranges::for_each(plan_.steps[i].outputs, extend);
    }
    for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
      const Buffer& buffer = plan_.buffers[id];
      if (!buffer.persistent && !buffer.output && last[id] != kNever) plan_.steps[last[id]].release.push_back(id);
    }
    last_of_buffer_ = std::move(last);
  }

  // In the order in which they are copied to the device.
  void place_on_disk() {
    plan_.disk.offset_bytes.resize(plan_.buffers.size(), kNever);
    const auto place = [&](BufferId id) {
      if (id == kNoBuffer || !plan_.buffers[id].on_disk || plan_.disk.offset_bytes[id] != kNever) return;
      plan_.disk.offset_bytes[id] = plan_.disk.bytes;
      plan_.disk.bytes += round_up(plan_.buffers[id].bytes, kFileBlockBytes);
    };
    for (const PlanStep& step : plan_.steps) {
      for (const Operand& use : step.inputs) place(use.buffer);
    }
    for (BufferId id = 0; id < plan_.buffers.size(); ++id) place(id);
  }

  // An input lies there all the time, anything else from the step that makes it to the last that reads it.
  void place_on_host() {
    const auto end = static_cast<std::uint32_t>(plan_.steps.size());
    std::vector<std::uint32_t> first(plan_.buffers.size());
    for (std::uint32_t step = 0; step < end; ++step) {
      if (graph_.node(plan_.steps[step].node).op != Op::copy_to_host) continue;
      for (const Operand& made : plan_.steps[step].outputs) first[made.buffer] = step;
    }
    std::vector<BufferId> on_host;
    std::vector<Lifetime> lifetimes;
    for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
      const Buffer& buffer = plan_.buffers[id];
      if (!buffer.on_host || buffer.on_disk) continue;
      const bool is_input = graph_.producer_node(buffer.value).op == Op::input;
      const auto last = static_cast<std::uint32_t>(std::min<std::size_t>(last_of_buffer_[id], end));
      on_host.push_back(id);
      lifetimes.push_back({block_bytes(buffer.bytes), is_input ? 0 : first[id], is_input ? end : last});
    }
    const std::size_t staging_bytes = plan_.disk.bytes > 0 ? kStagingBytes : 0;
    const Packing packing = pack(lifetimes);
    plan_.host.bytes = staging_bytes + packing.bytes;
    plan_.host.offset_bytes.resize(plan_.buffers.size());
    for (std::size_t i = 0; i < on_host.size(); ++i)
      plan_.host.offset_bytes[on_host[i]] = staging_bytes + packing.offsets[i];
  }

  void categorise() {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Phase phase = graph_.node(plan_.steps[i].node).phase;
      const bool before_backward = phase == Phase::forward || phase == Phase::loss;
      for (const BufferId id : plan_.steps[i].allocate) {
        const bool saved = before_backward && plan_.backward_begin && last_of_buffer_[id] != kNever &&
                           last_of_buffer_[id] >= *plan_.backward_begin;
        if (saved) plan_.buffers[id].category = MemoryCategory::activation;
      }
    }
    // Divided parameters while this rank has the whole, and tensors of the host while the device has a copy.
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const bool gathers = node.op == Op::all_gather && !is_gather_of(node, Gather::tokens);
      if (!gathers && node.op != Op::copy_from_host) continue;
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        plan_.buffers[buffer_of_[node.outputs[i].id]].category =
            gathers ? MemoryCategory::parameter : plan_.buffers[buffer_of_[node.inputs[i].id]].category;
      }
    }
    for (const Output& output : graph_.outputs()) {
      Buffer& buffer = plan_.buffers[buffer_of_[layouts_[output.value.id].root.id]];
      if (output.role == OutputRole::activation && !buffer.persistent) buffer.category = MemoryCategory::activation;
    }
    for (const Value value : parameter_gradients()) {
      const BufferId buffer = buffer_of_[layouts_[value.id].root.id];
      if (buffer != kNoBuffer && !plan_.buffers[buffer].persistent)
        plan_.buffers[buffer].category = MemoryCategory::gradient;
    }
  }

  // The gradient operands of optimizers, and the outputs that are gradients.
  std::vector<Value> parameter_gradients() const {
    std::vector<Value> found;
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const std::optional<OptimizerLayout> layout = optimizer_layout(node);
      if (!layout) continue;
      for (std::size_t i = layout->scalars + 1; i < node.inputs.size(); i += layout->operands_per_tensor())
        found.push_back(node.inputs[i]);
    }
    for (const Output& output : graph_.outputs()) {
      if (output.role == OutputRole::gradient) found.push_back(output.value);
    }
    return found;
  }

  void record_values() {
    plan_.values.resize(graph_.value_count());
    for (const NodeId id : graph_.order()) {
      for (const Value value : graph_.node(id).outputs) plan_.values[value.id] = operand(value);
    }
  }

  const Graph& graph_;
  const PlanOptions& options_;
  std::vector<ValueLayout> layouts_;
  std::vector<BufferId> buffer_of_;  // by value id; of storage (ValueLayout::root), and of new values of inputs
  std::vector<std::size_t> last_of_buffer_;
  std::vector<std::size_t> collective_ends_;  // by step; kNever for other launches
  std::vector<std::size_t> running_;          // collectives for which no step has waited yet
  std::vector<Value> update_target_;
  std::vector<NodeId> last_reader_;  // by value id, of storage; invalid for that of outputs
  ExecutionPlan plan_;
};

}  // namespace

ExecutionPlan make_plan(const Graph& graph, const PlanOptions& options) { return Planner(graph, options).run(); }

std::vector<Lifetime> lifetimes_of(const ExecutionPlan& plan, std::span<const std::size_t> workspace_bytes) {
  const auto end = static_cast<std::uint32_t>(plan.steps.size());
  std::vector<Lifetime> lifetimes;
  lifetimes.reserve(plan.buffers.size() + plan.steps.size());
  for (const Buffer& buffer : plan.buffers)
    lifetimes.push_back({buffer.on_host ? 0 : block_bytes(buffer.bytes), 0, end});
  for (std::uint32_t step = 0; step < end; ++step) {
    for (const BufferId id : plan.steps[step].allocate) lifetimes[id].first = step;
    for (const BufferId id : plan.steps[step].release) lifetimes[id].last = step;
    const std::size_t bytes = workspace_bytes[step];
    lifetimes.push_back({bytes == 0 ? 0 : block_bytes(bytes), step, step});
  }
  std::int64_t sum = 0;
  for (const Lifetime& lifetime : lifetimes)
    sum = checked_sum({sum, static_cast<std::int64_t>(lifetime.bytes)}, "the memory of all buffers");
  return lifetimes;
}

std::vector<std::size_t> live_bytes_by_step(std::span<const Lifetime> lifetimes) {
  std::uint32_t last = 0;
  for (const Lifetime& lifetime : lifetimes) last = std::max(last, lifetime.last);
  // First the change at each step; subtraction may wrap, and the sums are right all the same.
  std::vector<std::size_t> live(std::size_t{last} + 2);
  for (const Lifetime& lifetime : lifetimes) {
    live[lifetime.first] += lifetime.bytes;
    live[std::size_t{lifetime.last} + 1] -= lifetime.bytes;
  }
  for (std::size_t step = 1; step < live.size(); ++step) live[step] += live[step - 1];
  live.pop_back();
  return live;
}

std::size_t liveness_lower_bound(std::span<const Lifetime> lifetimes) {
  return std::ranges::max(live_bytes_by_step(lifetimes));
}

}  // namespace ridgepoint
