#include "lowering/row_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <numeric>

#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

constexpr auto kLevelNames = enum_names<RowLevel>("uniform", "row", "column");
constexpr auto kKindNames = enum_names<RowKind>("load", "constant", "iota", "elementwise", "reduce");
constexpr auto kStoreNames = enum_names<RowStore>("element", "row", "accumulate_columns", "accumulate_rows");

std::int64_t product(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::string print_access(const RowAccess& access, std::size_t row_axes) {
  return fmt::format(
      "{}[{}|{}]", name(access.dtype),
      fmt::join(access.row_strides.begin(), access.row_strides.begin() + static_cast<std::ptrdiff_t>(row_axes), ","),
      access.column_stride);
}

std::string print_operation(const RowInstruction& instruction, std::size_t row_axes) {
  switch (instruction.kind) {
    case RowKind::load: return fmt::format("load {} {}", instruction.input, print_access(instruction.access, row_axes));
    case RowKind::constant:
      return is_integer(instruction.dtype) ? fmt::format("constant {}", instruction.integer)
                                           : fmt::format("constant {}", instruction.value);
    case RowKind::iota: return "iota " + print_access(instruction.access, row_axes);
    default: break;
  }
  std::string text(name(instruction.op));
  for (const int operand : instruction.operands) {
    if (operand >= 0) text += fmt::format(" %{}", operand);
  }
  return instruction.op == Op::cast ? text + fmt::format(" {}", name(instruction.dtype)) : text;
}

}  // namespace

std::int64_t RowSpace::group_count() const { return product(std::span(rows).first(static_cast<std::size_t>(kept))); }
std::int64_t RowSpace::rows_per_group() const {
  return product(std::span(rows).subspan(static_cast<std::size_t>(kept)));
}

std::string_view name(RowLevel level) { return kLevelNames[level]; }
std::string_view name(RowKind kind) { return kKindNames[kind]; }
std::string_view name(RowStore store) { return kStoreNames[store]; }

std::string print(const RowProgram& program) {
  const std::size_t row_axes = program.space.rows.size();
  const auto kept = program.space.rows.begin() + program.space.kept;
  std::string text = fmt::format("space kept [{}] summed [{}] columns {} phases {}\n",
                                 fmt::join(program.space.rows.begin(), kept, ","),
                                 fmt::join(kept, program.space.rows.end(), ","), program.space.columns, program.phases);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const RowInstruction& instruction = program.instructions[i];
    text += fmt::format("%{} {}.{} = {}\n", i, name(instruction.level), instruction.phase,
                        print_operation(instruction, row_axes));
  }
  for (const RowOutput& output : program.outputs) {
    text += fmt::format("output {} {} = %{}", output.output, name(output.store), output.value);
    const bool accumulates = output.store == RowStore::accumulate_columns || output.store == RowStore::accumulate_rows;
    text += fmt::format("{} {}\n", accumulates ? fmt::format(" {}", name(output.op)) : "",
                        print_access(output.access, row_axes));
  }
  return text;
}

}  // namespace ridgepoint
