#include "backends/cuda/generator/types.h"
#include "backends/cuda/generator/variants.h"

namespace ridgepoint::cuda {
namespace {

// Strides of the kept row axes over partial results that are stored group after group, `step` elements each.
RowAccess partial_access(const RowSpace& space, DType dtype, std::int64_t step) {
  RowAccess access;
  access.dtype = dtype;
  for (int d = space.kept - 1; d >= 0; --d) {
    access.row_strides[static_cast<std::size_t>(d)] = step;
    step *= space.rows[static_cast<std::size_t>(d)];
  }
  access.column_stride = 1;
  return access;
}

RowInstruction partial_load(const RowAccess& access, int region) {
  RowInstruction load;
  load.kind = RowKind::load;
  load.dtype = access.dtype;
  load.level = RowLevel::column;
  load.input = kWorkspaceInput + region;
  load.access = access;
  return load;
}

RowInstruction reduction_of(Op op, DType dtype, int operand) {
  RowInstruction reduction;
  reduction.kind = RowKind::reduce;
  reduction.op = op;
  reduction.dtype = dtype;
  reduction.level = RowLevel::row;
  reduction.operands[0] = operand;
  return reduction;
}

void keep_group_axes(const RowSpace& from, RowSpace& to) {
  to.rows.assign(from.rows.begin(), from.rows.begin() + from.kept);
  to.kept = from.kept;
}

}  // namespace

RowProgram combine_columns(const RowProgram& program, const RowOutput& output, int region, std::int64_t parts) {
  RowProgram combine;
  keep_group_axes(program.space, combine.space);
  const std::int64_t columns = program.space.columns;
  RowAccess access = partial_access(program.space, accumulator(output.access.dtype), columns);
  access.row_strides[combine.space.rows.size()] = program.space.group_count() * columns;
  combine.space.rows.push_back(parts);
  combine.space.columns = columns;
  combine.instructions.push_back(partial_load(access, region));
  combine.outputs.push_back(output);
  combine.outputs.back().value = 0;
  return combine;
}

RowProgram combine_rows(const RowProgram& program, const RowOutput& output, int region, std::int64_t parts) {
  RowProgram combine;
  keep_group_axes(program.space, combine.space);
  combine.space.columns = parts;
  const DType dtype = accumulator(output.access.dtype);
  combine.instructions.push_back(partial_load(partial_access(program.space, dtype, parts), region));
  combine.instructions.push_back(reduction_of(output.op, dtype, 0));
  combine.outputs.push_back(output);
  combine.outputs.back().value = 1;
  combine.outputs.back().store = RowStore::row;
  return combine;
}

RowProgram combine_reductions(const RowProgram& program, const std::vector<int>& regions, std::int64_t parts) {
  RowProgram combine;
  combine.space = program.space;
  combine.space.columns = parts;
  std::vector<int> index(program.instructions.size(), -1);
  std::size_t region = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    RowInstruction instruction = program.instructions[i];
    if (instruction.level == RowLevel::column) continue;
    if (instruction.kind == RowKind::reduce) {
      const RowAccess access = partial_access(program.space, accumulator(instruction.dtype), parts);
      combine.instructions.push_back(partial_load(access, regions[region++]));
      instruction = reduction_of(instruction.op, access.dtype, static_cast<int>(combine.instructions.size()) - 1);
    } else {
      for (int& operand : instruction.operands)
        operand = operand < 0 ? operand : index[static_cast<std::size_t>(operand)];
    }
    index[i] = static_cast<int>(combine.instructions.size());
    combine.instructions.push_back(instruction);
  }
  combine.outputs = program.outputs;
  for (RowOutput& output : combine.outputs) output.value = index[static_cast<std::size_t>(output.value)];
  return combine;
}

}  // namespace ridgepoint::cuda
