// The methods of BodyPrinter that print values: loads, formulas, stores.
#include "backends/cuda/generator/body.h"
#include "backends/cuda/generator/types.h"

namespace ridgepoint::cuda {

std::string BodyPrinter::reference(int i) const {
  const RowInstruction& instruction = at(i);
  if (instruction.kind == RowKind::constant) return literal(instruction.dtype, instruction.value, instruction.integer);
  const bool load = instruction.kind == RowKind::load;
  if (is_column(i)) {
    if (load) return fmt::format("widen(p{}[u].items[k])", i);
    return is_kept_elsewhere(i) ? fmt::format("x{}[u][k]", i) : fmt::format("v{}", i);
  }
  if (load && rows_ahead_ && instruction.level == RowLevel::row) return fmt::format("h{}[u]", i);
  return fmt::format("r{}", i);
}

void BodyPrinter::print_uniform_values() {
  for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
    if (at(i).level == RowLevel::uniform && at(i).kind != RowKind::constant) print_value(i);
  }
}

void BodyPrinter::print_row_values(int phase) {
  for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
    const RowInstruction& instruction = at(i);
    if (instruction.level != RowLevel::row || instruction.kind == RowKind::reduce || instruction.phase != phase)
      continue;
    if (!(rows_ahead_ && instruction.kind == RowKind::load)) print_value(i);
  }
}

// Column values are named v<i>, other values r<i>.
void BodyPrinter::print_value(int i) {
  const RowInstruction& instruction = at(i);
  const std::string name = fmt::format("{}{}", is_column(i) ? 'v' : 'r', i);
  std::string value;
  if (instruction.kind == RowKind::load) {
    value = fmt::format("widen(*({}))", address(input_name(instruction.input), instruction.access));
  } else if (instruction.kind == RowKind::iota) {
    value = offset(instruction.access);
    if (is_column(i)) {
      value += fmt::format(" + (static_cast<Index>(j) * {} + k) * {}", width_, instruction.access.column_stride);
    }
    value = fmt::format("widen(Narrow<{}>::of({}))", memory_type(instruction.dtype), value);
  } else {
    const auto operand = [&](int n) {
      const int index = instruction.operands[static_cast<std::size_t>(n)];
      return index < 0 ? std::string() : reference(index);
    };
    value = formula(instruction.op, instruction.dtype, operand(0), operand(1), operand(2));
  }
  code_.line("const {} {} = {};", compute_type(instruction.dtype), name, value);
}

void BodyPrinter::load_rows_ahead(int vectors) {
  rows_ahead_ = true;
  for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
    if (at(i).kind != RowKind::load || at(i).level != RowLevel::row) continue;
    code_.line("{} h{}[{}];", compute_type(at(i).dtype), i, vectors);
  }
}

void BodyPrinter::declare_packets(const std::vector<int>& loads, int vectors) {
  for (const int i : loads) {
    code_.line("Packet<{}, {}> p{}[{}];", memory_type(at(i).access.dtype), width_, i, vectors);
  }
}

void BodyPrinter::declare_kept(const SweepPlan& plan, int vectors) {
  for (std::size_t i = 0; i < plan.kept.size(); ++i) {
    const RowInstruction& instruction = program_.instructions[i];
    if (!plan.kept[i]) continue;
    if (instruction.kind == RowKind::load) {
      declare_packets({static_cast<int>(i)}, vectors);
    } else {
      code_.line("{} x{}[{}][{}];", compute_type(instruction.dtype), i, vectors, width_);
    }
  }
}

void BodyPrinter::print_load(int i) {
  const RowInstruction& load = at(i);
  const bool strided = load.access.column_stride != 1;
  std::string from = address(input_name(load.input), load.access);
  if (strided) from += fmt::format(", static_cast<Index>({})", load.access.column_stride);
  const std::string whole = fmt::format("{}<{}>({})", strided ? "gather" : "load", width_, from);
  if (tail() == 0) {
    code_.line("p{}[u] = {};", i, whole);
  } else {
    code_.line("p{}[u] = j < {} ? {} : {}_first<{}, {}>({});", i, vectors_per_row() - 1, whole,
               strided ? "gather" : "load", width_, tail(), from);
  }
}

void BodyPrinter::print_loads(const std::vector<int>& loads) {
  for (const int i : loads) print_load(i);
  if (!rows_ahead_) return;
  for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
    if (at(i).kind != RowKind::load || at(i).level != RowLevel::row) continue;
    code_.line("h{}[u] = widen(*({}));", i, address(input_name(at(i).input), at(i).access));
  }
}

void BodyPrinter::print_elements(const SweepPlan& plan, const Sweep& sweep, std::string_view condition,
                                 std::string_view accumulator) {
  for (const int o : sweep.outputs) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(o)];
    if (output.store == RowStore::element) {
      code_.line("Packet<{}, {}> q{};", memory_type(output.access.dtype), width_, o);
    }
  }
  code_.open_unrolled("k", width_);
  for (const int i : sweep.computed) {
    print_value(i);
    if (plan.kept[static_cast<std::size_t>(i)]) code_.line("x{0}[u][k] = v{0};", i);
  }
  for (const int i : sweep.reductions) {
    code_.line("a{0} = {1}::of(a{0}, {2});", i, reduction_type(at(i).op), reference(at(i).operands[0]));
  }
  for (const int o : sweep.outputs) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(o)];
    if (output.store != RowStore::element) {
      code_.line("{0}c{1}{2} = {3}::of(c{1}{2}, {4});", condition, o, accumulator, reduction_type(output.op),
                 reference(output.value));
    } else if (at(output.value).kind == RowKind::load && at(output.value).access.dtype == output.access.dtype) {
      code_.line("q{}.items[k] = p{}[u].items[k];", o, output.value);  // a move keeps all bits, also those of a NaN
    } else {
      code_.line("q{}.items[k] = Narrow<{}>::of({});", o, memory_type(output.access.dtype), reference(output.value));
    }
  }
  code_.close();
}

void BodyPrinter::finish_sweep(const SweepPlan& plan, const Sweep& sweep) {
  for (const int i : sweep.computed) {
    if (plan.kept[static_cast<std::size_t>(i)]) in_register_[static_cast<std::size_t>(i)] = true;
  }
}

void BodyPrinter::print_element_stores(const Sweep& sweep) {
  for (const int o : sweep.outputs) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(o)];
    if (output.store != RowStore::element) continue;
    const bool strided = output.access.column_stride != 1;
    std::string to = address(fmt::format("out{}", output.output), output.access);
    if (strided) to += fmt::format(", static_cast<Index>({})", output.access.column_stride);
    const std::string whole = fmt::format("{}({}, q{});", strided ? "scatter" : "store", to, o);
    if (tail() == 0) {
      code_.line("{}", whole);
    } else {
      code_.line("if (j < {}) {} else {}_first<{}>({}, q{});", vectors_per_row() - 1, whole,
                 strided ? "scatter" : "store", tail(), to, o);
    }
  }
}

void BodyPrinter::print_row_stores() {
  for (const RowOutput& output : program_.outputs) {
    if (output.store != RowStore::row) continue;
    code_.line("out{}[{}] = Narrow<{}>::of({});", output.output, offset(output.access),
               memory_type(output.access.dtype), reference(output.value));
  }
}

}  // namespace ridgepoint::cuda
