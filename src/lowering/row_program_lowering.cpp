// lower_to_rows(): divides a body into subgraphs, chooses the space of each and emits its instructions.
#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/queries.h"
#include "lowering/row_program.h"
#include "lowering/row_space.h"

namespace ridgepoint {
namespace {

// The nodes that `outputs` depend on, in schedule order.
std::vector<NodeId> nodes_needed_by(const Graph& body, std::span<const int> outputs) {
  std::vector<bool> needed(body.node_capacity());
  for (const int index : outputs)
    needed[body.producer(body.outputs()[static_cast<std::size_t>(index)].value).id] = true;
  std::vector<NodeId> nodes;
  const auto order = body.order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (!needed[it->id]) continue;
    nodes.push_back(*it);
    for (const Value operand : body.node(*it).inputs) needed[body.producer(operand).id] = true;
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

// Groups the outputs that share a node. A node without axes (such as a step count) is cheap, so it is repeated instead.
std::vector<std::vector<int>> grouped_outputs(const Graph& body, const BodyAxes& axes) {
  const int count = static_cast<int>(body.outputs().size());
  std::vector<int> group(static_cast<std::size_t>(count));
  std::iota(group.begin(), group.end(), 0);
  std::vector<int> owner(body.node_capacity(), -1);
  for (int i = 0; i < count; ++i) {
    for (const NodeId id : nodes_needed_by(body, std::span(&i, 1))) {
      if (axes.set_of(body.node(id).outputs[0]).none()) continue;
      const int other = owner[id.id] < 0 ? -1 : group[static_cast<std::size_t>(owner[id.id])];
      owner[id.id] = i;
      if (other >= 0) std::replace(group.begin(), group.end(), group[static_cast<std::size_t>(i)], other);
    }
  }
  std::vector<std::vector<int>> groups(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) groups[static_cast<std::size_t>(group[static_cast<std::size_t>(i)])].push_back(i);
  std::erase_if(groups, [](const std::vector<int>& outputs) { return outputs.empty(); });
  return groups;
}

// A layout in which no two dimensions are contiguous together.
TensorLayout scattered_layout(const TensorType& type) {
  TensorLayout layout = dense_layout(type);
  std::int64_t stride = 2;
  for (int axis = type.shape.rank() - 1; axis >= 0; --axis) {
    layout.strides[static_cast<std::size_t>(axis)] = stride;
    stride = stride * type.shape[axis] + 1;
  }
  return layout;
}

class Emitter {
 public:
  Emitter(const Subgraph& subgraph, const ChosenSpace& space)
      : subgraph_(subgraph),
        space_(space),
        index_(subgraph.body.value_count(), -1),
        accumulated_(subgraph.body.value_count()) {
    program_.space = space.space;
  }

  std::optional<RowProgram> run() {
    for (const NodeId id : subgraph_.nodes) emit(subgraph_.body.node(id));
    for (const int output : subgraph_.outputs) {
      if (!emit_output(output)) return std::nullopt;
    }
    for (const RowInstruction& instruction : program_.instructions) {
      if (instruction.level == RowLevel::column || instruction.kind == RowKind::reduce)
        program_.phases = std::max(program_.phases, instruction.phase + 1);
    }
    return std::move(program_);
  }

 private:
  // `pending` for a reduction over summed rows: only an accumulating output can store its result.
  struct Accumulation {
    bool pending = false;
    Op op = Op::reduce_sum;
    AxisSet operand_axes;
  };

  RowInstruction& at(int index) { return program_.instructions[static_cast<std::size_t>(index)]; }
  int index_of(Value value) const { return index_[value.id]; }
  AxisSet all() const { return subgraph_.all_axes(); }

  int append(RowInstruction instruction) {
    program_.instructions.push_back(instruction);
    return static_cast<int>(program_.instructions.size()) - 1;
  }

  void alias(const Node& node) {
    index_[node.outputs[0].id] = index_of(node.inputs[0]);
    accumulated_[node.outputs[0].id] = accumulated_[node.inputs[0].id];
  }

  void emit(const Node& node) {
    int& result = index_[node.outputs[0].id];
    const DType dtype = subgraph_.body.type(node.outputs[0]).dtype;
    switch (op_class(node.op)) {
      case OpClass::state: result = node.op == Op::input ? emit_input(node) : emit_constant(dtype, node); return;
      case OpClass::view: return alias(node);
      case OpClass::reduction: return emit_reduction(node);
      default: break;
    }
    if (node.op == Op::iota) {
      const AxisStrides strides = subgraph_.strides_of(node);
      const bool varies = std::any_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride != 0; });
      result = varies ? emit_access(RowKind::iota, dtype, strides) : emit_constant(dtype, 0.0, 0);
    } else if (node.op == Op::copy || node.op == Op::detach) {
      alias(node);
    } else {
      result = emit_elementwise(node.op, dtype, node.inputs);
    }
  }

  int emit_constant(DType dtype, double value, std::int64_t integer) {
    RowInstruction instruction;
    instruction.dtype = dtype;
    instruction.value = value;
    instruction.integer = integer;
    return append(instruction);
  }
  int emit_constant(DType dtype, const Node& node) {
    return emit_constant(dtype, constant_value(node), is_integer(dtype) ? constant_integer(node) : 0);
  }

  int emit_input(const Node& node) {
    const int input = std::stoi(node.attributes.get<std::string>("name"));
    const TensorLayout& layout = subgraph_.inputs[static_cast<std::size_t>(input)];
    if (layout.immediate) return emit_constant(layout.dtype, *layout.immediate, layout.immediate_integer);
    const int index = emit_access(RowKind::load, layout.dtype, subgraph_.strides_of(node));
    at(index).input = input;
    return index;
  }

  // The strides determine the level, because a broadcast operand does not vary along all of its dimensions.
  int emit_access(RowKind kind, DType dtype, const AxisStrides& strides) {
    RowInstruction instruction;
    instruction.kind = kind;
    instruction.dtype = dtype;
    instruction.access = space_.access(dtype, strides);
    const auto& rows = instruction.access.row_strides;
    if (std::any_of(rows.begin(), rows.end(), [](std::int64_t stride) { return stride != 0; }))
      instruction.level = RowLevel::row;
    if (instruction.access.column_stride != 0) instruction.level = RowLevel::column;
    return append(instruction);
  }

  // The first phase in which a value is available: for a reduction, the phase after its loop.
  int available_in_phase(int index) { return at(index).phase + (at(index).kind == RowKind::reduce ? 1 : 0); }

  int emit_elementwise(Op op, DType dtype, std::span<const Value> operands) {
    RowInstruction instruction;
    instruction.kind = RowKind::elementwise;
    instruction.op = op;
    instruction.dtype = dtype;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const int operand = index_of(operands[i]);
      instruction.operands[i] = operand;
      instruction.level = std::max(instruction.level, at(operand).level);
      instruction.phase = std::max(instruction.phase, available_in_phase(operand));
    }
    return append(instruction);
  }

  // The value at column level, copied to it from a lower level.
  int at_column_level(int index) {
    if (at(index).level == RowLevel::column) return index;
    RowInstruction instruction;
    instruction.kind = RowKind::elementwise;
    instruction.dtype = at(index).dtype;
    instruction.level = RowLevel::column;
    instruction.phase = available_in_phase(index);
    instruction.operands[0] = index;
    return append(instruction);
  }

  void emit_reduction(const Node& node) {
    const AxisSet reduced = subgraph_.reduced_by(node);
    if (reduced.none()) return alias(node);
    const Value result = node.outputs[0];
    index_[result.id] = index_of(node.inputs[0]);
    if ((reduced & space_.columns).any()) index_[result.id] = emit_row_reduction(node.op, index_of(node.inputs[0]));
    if ((reduced & ~space_.columns).any())
      accumulated_[result.id] = {true, node.op, subgraph_.axes.set_of(node.inputs[0])};
  }

  int emit_row_reduction(Op op, int operand) {
    RowInstruction instruction;
    instruction.kind = RowKind::reduce;
    instruction.op = op;
    instruction.operands[0] = at_column_level(operand);
    instruction.dtype = at(instruction.operands[0]).dtype;
    instruction.level = RowLevel::row;
    instruction.phase = at(instruction.operands[0]).phase;
    return append(instruction);
  }

  // False when the output varies along too few axes: the program would store its elements repeatedly.
  bool emit_output(int index) {
    const Value value = subgraph_.output(index);
    const TensorLayout& layout = subgraph_.output_layouts[static_cast<std::size_t>(index)];
    const AxisSet axes = subgraph_.axes.set_of(value);
    const Accumulation& accumulation = accumulated_[value.id];
    RowOutput output;
    output.output = index;
    output.value = index_of(value);
    output.access = space_.access(layout.dtype, axis_strides(subgraph_.axes, value, layout));
    const bool has_columns = space_.columns.any() && (axes & space_.columns) == space_.columns;
    if (accumulation.pending) {
      if (accumulation.operand_axes != all() && accumulation.operand_axes != (all() & ~space_.columns)) return false;
      output.op = accumulation.op;
      output.store = has_columns ? RowStore::accumulate_columns : RowStore::accumulate_rows;
      if ((axes & ~space_.columns) != (all() & ~space_.columns & ~space_.summed)) return false;
    } else {
      output.store = has_columns ? RowStore::element : RowStore::row;
      if ((axes | space_.columns) != all() || (!has_columns && (axes & space_.columns).any())) return false;
    }
    if (has_columns) output.value = at_column_level(output.value);
    program_.outputs.push_back(output);
    return true;
  }

  const Subgraph& subgraph_;
  const ChosenSpace& space_;
  std::vector<int> index_;
  std::vector<Accumulation> accumulated_;
  RowProgram program_;
};

}  // namespace

std::optional<std::vector<RowProgram>> lower_to_rows(const Graph& body, std::span<const TensorLayout> inputs,
                                                     std::span<const TensorLayout> outputs) {
  const std::optional<BodyAxes> axes = find_axes(body);
  if (!axes) return std::nullopt;
  std::vector<RowProgram> programs;
  for (const std::vector<int>& indices : grouped_outputs(body, *axes)) {
    const Subgraph subgraph{body, *axes, nodes_needed_by(body, indices), indices, inputs, outputs};
    std::optional<RowProgram> program;
    for (const ChosenSpace& space : choose_spaces(subgraph)) {
      if (program = Emitter(subgraph, space).run(); program) break;
    }
    if (!program) return std::nullopt;
    programs.push_back(std::move(*program));
  }
  return programs;
}

bool lowers_to_one_program(const Graph& body) {
  std::vector<TensorLayout> inputs;
  std::vector<TensorLayout> outputs;
  for (std::size_t i = 0; i < body.inputs().size(); ++i)
    inputs.push_back(scattered_layout(body.type(*body.find_input(std::to_string(i)))));
  for (const Output& output : body.outputs()) outputs.push_back(dense_layout(body.type(output.value)));
  const std::optional<std::vector<RowProgram>> programs = lower_to_rows(body, inputs, outputs);
  return programs && programs->size() == 1;
}

}  // namespace ridgepoint
