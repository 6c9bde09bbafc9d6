#include "backends/cuda/generator/body.h"

#include <algorithm>
#include <cstdlib>

#include "backends/cuda/generator/types.h"
#include "core/types/float8.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kAccessBytes = 16;
constexpr int kWidestVector = 8;

std::vector<RowAccess> column_accesses(const RowProgram& program) {
  std::vector<RowAccess> found;
  for (const RowInstruction& instruction : program.instructions) {
    if (instruction.kind == RowKind::load && instruction.access.column_stride == 1) found.push_back(instruction.access);
  }
  for (const RowOutput& output : program.outputs) {
    if (output.store == RowStore::element && output.access.column_stride == 1) found.push_back(output.access);
  }
  return found;
}

}  // namespace

std::string input_name(int input) {
  return input >= kWorkspaceInput ? fmt::format("part{}", input - kWorkspaceInput) : fmt::format("in{}", input);
}

int vector_width(const RowProgram& program, bool tail_allowed, bool scalar) {
  const std::vector<RowAccess> accesses = column_accesses(program);
  if (accesses.empty() || scalar) return 1;
  int narrowest = kAccessBytes;
  for (const RowAccess& access : accesses) narrowest = std::min(narrowest, static_cast<int>(size_bytes(access.dtype)));
  int width = std::min(kWidestVector, kAccessBytes / narrowest);
  const auto fits = [&](int w) {
    if (program.space.columns % w != 0 && !(tail_allowed && program.space.rows.empty())) return false;
    return std::all_of(accesses.begin(), accesses.end(), [&](const RowAccess& access) {
      return std::all_of(access.row_strides.begin(), access.row_strides.end(),
                         [&](std::int64_t stride) { return stride % w == 0; });
    });
  };
  while (width > 1 && !fits(width)) width /= 2;
  return width;
}

BodyPrinter::BodyPrinter(const RowProgram& program, int width, Code& code)
    : program_(program), width_(width), code_(code), in_register_(program.instructions.size()) {
  constexpr std::int64_t kNarrow = std::int64_t{1} << 30;
  wide_ = program.space.row_count() > kNarrow / std::max<std::int64_t>(program.space.columns, 1);
  for (const RowAccess& access : accesses()) {
    std::int64_t reach = std::abs(access.column_stride) * (program.space.columns - 1);
    for (int d = 0; d < row_axes(); ++d)
      reach += std::abs(access.row_strides[static_cast<std::size_t>(d)]) * (axis_size(d) - 1);
    wide_ = wide_ || reach > kNarrow;
  }
}

std::vector<RowAccess> BodyPrinter::accesses() const {
  std::vector<RowAccess> all;
  for (const RowInstruction& instruction : program_.instructions) {
    if (instruction.kind == RowKind::load || instruction.kind == RowKind::iota) all.push_back(instruction.access);
  }
  for (const RowOutput& output : program_.outputs) all.push_back(output.access);
  return all;
}

std::size_t BodyPrinter::alignment_bytes(const RowAccess& access) const {
  const std::size_t element = size_bytes(access.dtype);
  if (access.column_stride != 1) return element;
  return std::min<std::size_t>(kAccessBytes, element * static_cast<std::size_t>(width_));
}

void BodyPrinter::add_parameter(std::vector<GeneratedParameter>& list, const GeneratedParameter& parameter) const {
  for (GeneratedParameter& known : list) {
    if (known.kind != parameter.kind || known.index != parameter.index) continue;
    known.alignment_bytes = std::max(known.alignment_bytes, parameter.alignment_bytes);
    return;
  }
  list.push_back(parameter);
}

std::vector<GeneratedParameter> BodyPrinter::parameters() const {
  using Kind = GeneratedParameter::Kind;
  std::vector<GeneratedParameter> list;
  for (const RowInstruction& load : program_.instructions) {
    if (load.kind != RowKind::load) continue;
    const bool region = load.input >= kWorkspaceInput;
    add_parameter(list,
                  {region ? Kind::workspace : Kind::input, load.input - (region ? kWorkspaceInput : 0), 0,
                   is_column(static_cast<int>(&load - program_.instructions.data())) ? alignment_bytes(load.access)
                                                                                     : size_bytes(load.dtype)});
  }
  for (const RowOutput& output : program_.outputs) {
    const bool vector = output.store == RowStore::element;
    add_parameter(list, {Kind::output, output.output, 0,
                         vector ? alignment_bytes(output.access) : size_bytes(output.access.dtype)});
  }
  return list;
}

std::string BodyPrinter::parameter_list() const {
  std::string text;
  std::vector<std::string> seen;
  const auto add = [&](std::string_view type, const std::string& name) {
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) return;
    text += fmt::format("{}{}* {}", seen.empty() ? "" : ", ", type, name);
    seen.push_back(name);
  };
  for (const RowInstruction& load : program_.instructions) {
    if (load.kind == RowKind::load)
      add(fmt::format("const {}", memory_type(load.access.dtype)), input_name(load.input));
  }
  for (const RowOutput& output : program_.outputs)
    add(memory_type(output.access.dtype), fmt::format("out{}", output.output));
  return text;
}

void BodyPrinter::print_types() {
  code_.line("using Index = {};", wide_ ? "long long" : "int");
  code_.line("using Count = {};", wide_ ? "unsigned long long" : "unsigned");
}

// Whether the access has one even stride over axes [first, end), so that they can be one axis.
bool BodyPrinter::merges(const RowAccess& access, int first, int end) const {
  for (int d = first; d + 1 < end; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (access.row_strides[i] != access.row_strides[i + 1] * axis_size(d + 1)) return false;
  }
  return true;
}

void BodyPrinter::print_indices(int first, int end, std::string_view index) {
  const std::vector<RowAccess> all = accesses();
  if (std::all_of(all.begin(), all.end(), [&](const RowAccess& a) { return merges(a, first, end); })) return;
  std::string rest(index);
  for (int d = end - 1; d >= first; --d) {
    const std::int64_t size = std::max<std::int64_t>(axis_size(d), 1);
    if (d == first) {
      code_.line("const Index i{} = static_cast<Index>({});", d, rest);
      continue;
    }
    code_.line("const Index i{} = static_cast<Index>({} % {}u);", d, rest, size);
    code_.line("const Count rest{} = {} / {}u;", d, rest, size);
    rest = fmt::format("rest{}", d);
  }
}

std::string BodyPrinter::offset_along(const RowAccess& access, int first, int end, std::string_view index) const {
  if (first == end) return "";
  const std::int64_t last = access.row_strides[static_cast<std::size_t>(end - 1)];
  if (!by_axis_ && merges(access, first, end))
    return last == 0 ? "" : fmt::format(" + static_cast<Index>({}) * {}", index, last);
  std::string text;
  for (int d = first; d < end; ++d) {
    const std::int64_t stride = access.row_strides[static_cast<std::size_t>(d)];
    if (stride != 0) text += fmt::format(" + i{} * {}", d, stride);
  }
  return text;
}

std::string BodyPrinter::offset(const RowAccess& access) const {
  const std::string text = offset_along(access, 0, program_.space.kept, "group") +
                           offset_along(access, program_.space.kept, row_axes(), "row");
  return text.empty() ? "0" : text.substr(3);
}

std::string BodyPrinter::address(std::string_view base, const RowAccess& access) const {
  std::string text = offset(access);
  if (access.column_stride != 0) {
    const std::int64_t step = access.column_stride * width_;
    text = fmt::format("{}static_cast<Index>(j){}", text == "0" ? "" : text + " + ",
                       step == 1 ? "" : fmt::format(" * {}", step));
  }
  return text == "0" ? std::string(base) : fmt::format("{} + ({})", base, text);
}

// The methods of BodyPrinter that print values: loads, formulas, stores.
std::string BodyPrinter::reference(int i) const {
  const RowInstruction& instruction = at(i);
  if (instruction.kind == RowKind::constant) return literal(instruction.dtype, instruction.value, instruction.integer);
  const bool load = instruction.kind == RowKind::load;
  if (is_column(i)) {
    if (load) return fmt::format("element(p{}[u], k)", i);
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

// Whether it is the larger of an fp32 number and its negative: what reads a magnitude needs no instruction for it.
bool BodyPrinter::is_magnitude(const RowInstruction& instruction) const {
  if (instruction.op != Op::maximum || compute_type(instruction.dtype) != "float") return false;
  const RowInstruction& other = at(instruction.operands[1]);
  return other.kind == RowKind::elementwise && other.op == Op::neg && other.operands[0] == instruction.operands[0];
}

// Whether every number is a magnitude or NaN: a magnitude, or the larger of two such numbers.
bool BodyPrinter::is_never_negative(int i) const {
  const RowInstruction& instruction = at(i);
  if (instruction.kind != RowKind::elementwise || compute_type(instruction.dtype) != "float") return false;
  return is_magnitude(instruction) || (instruction.op == Op::maximum && is_never_negative(instruction.operands[0]) &&
                                       is_never_negative(instruction.operands[1]));
}

std::string_view BodyPrinter::reduction(int i) const {
  const RowInstruction& instruction = at(i);
  const bool of_magnitudes = instruction.op == Op::reduce_max && program_.space.columns > 0 &&
                             compute_type(instruction.dtype) == "float" && is_never_negative(instruction.operands[0]);
  return of_magnitudes ? "LargestMagnitude" : reduction_type(instruction.op);
}

// Whether it is the sigmoid of a number of 16 bits.
bool BodyPrinter::is_sigmoid_of_short(const RowInstruction& instruction) const {
  if (instruction.op != Op::sigmoid) return false;
  const RowInstruction& of = at(instruction.operands[0]);
  return of.kind == RowKind::load && (of.access.dtype == DType::bf16 || of.access.dtype == DType::fp16);
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
    if (is_column(i))
      value += fmt::format(" + (static_cast<Index>(j) * {} + k) * {}", width_, instruction.access.column_stride);
    value = fmt::format("widen(Narrow<{}>::of({}))", memory_type(instruction.dtype), value);
  } else {
    const auto operand = [&](int n) {
      const int index = instruction.operands[static_cast<std::size_t>(n)];
      return index < 0 ? std::string() : reference(index);
    };
    value = is_magnitude(instruction) ? fmt::format("fabsf({})", operand(0))
            : is_sigmoid_of_short(instruction)
                ? fmt::format("sigmoid_of_short({})", operand(0))
                : formula(instruction.op, instruction.dtype, operand(0), operand(1), operand(2));
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
  for (const int i : loads) code_.line("Packet<{}, {}> p{}[{}];", memory_type(at(i).access.dtype), width_, i, vectors);
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

void BodyPrinter::print_prefetches(const std::vector<int>& loads) {
  for (const int i : loads) {
    const RowAccess& access = at(i).access;
    const bool varies = std::ranges::any_of(access.row_strides, [](std::int64_t stride) { return stride != 0; });
    if (varies && access.column_stride == 1) code_.line("prefetch({});", address(input_name(at(i).input), access));
  }
}

// What is narrowed to the output: of a code of 8 bits, which costs a look-up to widen, the number behind the cast.
int BodyPrinter::narrowed(const RowOutput& output) const {
  const RowInstruction& value = at(output.value);
  const bool is_code = value.kind == RowKind::elementwise && value.op == Op::cast && is_float8(value.dtype);
  return is_code && value.dtype == output.access.dtype ? value.operands[0] : output.value;
}

// Whether elements become codes of 8 bits together: two of them take one instruction.
bool BodyPrinter::narrows_together(const RowOutput& output) const {
  const DType dtype = at(narrowed(output)).dtype;
  return output.store == RowStore::element && is_float8(output.access.dtype) && dtype != output.access.dtype &&
         compute_type(dtype) == "float";
}

void BodyPrinter::print_elements(const SweepPlan& plan, const Sweep& sweep, std::string_view condition,
                                 std::string_view accumulator) {
  for (const int o : sweep.outputs) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(o)];
    if (output.store != RowStore::element) continue;
    code_.line("Packet<{}, {}> q{};", memory_type(output.access.dtype), width_, o);
    if (narrows_together(output)) code_.line("float n{}[{}];", o, width_);
  }
  code_.open_unrolled("k", width_);
  for (const int i : sweep.computed) {
    print_value(i);
    if (plan.kept[static_cast<std::size_t>(i)]) code_.line("x{0}[u][k] = v{0};", i);
  }
  for (const int i : sweep.reductions)
    code_.line("a{0} = {1}::of(a{0}, {2});", i, reduction(i), reference(at(i).operands[0]));
  for (const int o : sweep.outputs) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(o)];
    if (output.store != RowStore::element) {
      code_.line("{0}c{1}{2} = {3}::of(c{1}{2}, {4});", condition, o, accumulator, reduction_type(output.op),
                 reference(output.value));
    } else if (at(output.value).kind == RowKind::load && at(output.value).access.dtype == output.access.dtype) {
      code_.line("q{}.items[k] = p{}[u].items[k];", o, output.value);  // a move keeps all bits, also those of a NaN
    } else if (narrows_together(output)) {
      code_.line("n{}[k] = {};", o, reference(narrowed(output)));
    } else {
      code_.line("q{}.items[k] = Narrow<{}>::of({});", o, memory_type(output.access.dtype),
                 reference(narrowed(output)));
    }
  }
  code_.close();
  for (const int o : sweep.outputs) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(o)];
    if (narrows_together(output)) code_.line("q{0} = narrow_all(n{0}, {1}());", o, memory_type(output.access.dtype));
  }
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
