// Compiles a row program to tile steps. Operands in fp32 or int64 with unit stride are read from their own memory, and
// such results are computed in the output; other values pass through registers, each of one tile.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/tile/functions/functions.h"
#include "backends/cpu/tile/phase_plan.h"
#include "backends/cpu/tile/program.h"

namespace ridgepoint::cpu {
namespace {

template <typename T>
void index_value(void* result, const void* a, const void*, const void*, std::int64_t, std::int64_t) {
  *static_cast<T*>(result) = static_cast<T>(reinterpret_cast<std::intptr_t>(a));
}

tile::Function load_function(DType dtype, std::int64_t stride) {
  return is_integer(dtype) ? tile::integer_load_function(dtype) : tile::load_function(dtype, stride);
}

tile::Function store_function(DType dtype, std::int64_t stride) {
  return is_integer(dtype) ? tile::integer_store_function(dtype) : tile::store_function(dtype, stride);
}

// The time of one element on one core, in cache; rough, to tell cheap work from expensive work.
double cost_ns(Op op) {
  constexpr std::array kCosts = {0.08, 0.3, 0.5};  // by Effort
  return kCosts[static_cast<std::size_t>(traits(op).effort)];
}

class Compiler {
 public:
  explicit Compiler(const RowProgram& rows)
      : rows_(rows), plan_(rows), build_(rows), where_(rows.instructions.size()), memory_(rows.instructions.size()) {}

  TileProgram run() {
    if (has_integer_columns()) build_.program.value_bytes = sizeof(std::int64_t);
    for (int i = 0; i < static_cast<int>(rows_.instructions.size()); ++i) place(i);
    for (int phase = 0; phase < rows_.phases; ++phase) compile_phase(phase);
    compile_row_end();
    return build_.finish();
  }

 private:
  const RowInstruction& at(int i) const { return rows_.instructions[static_cast<std::size_t>(i)]; }
  const RowOutput& output(int i) const { return rows_.outputs[static_cast<std::size_t>(i)]; }
  TileSlot& where(int i) { return where_[static_cast<std::size_t>(i)]; }
  TileSlot& memory(int i) { return memory_[static_cast<std::size_t>(i)]; }
  bool is_column(int i) const { return at(i).level == RowLevel::column; }

  bool holds_integers(int i) const { return is_integer(at(i).dtype); }

  // Whether column values of integer dtype are computed or loaded; absorbed instructions do not count.
  bool has_integer_columns() const {
    for (int i = 0; i < static_cast<int>(rows_.instructions.size()); ++i) {
      if (is_column(i) && holds_integers(i) && !plan_.fusion(i).absorbed) return true;
    }
    return false;
  }

  // The steps that compute a value which does not vary with the column.
  std::vector<TileStep>& steps_of(const RowInstruction& instruction) {
    return instruction.level == RowLevel::uniform ? build_.program.uniform_steps : build_.row_steps(instruction.phase);
  }

  // Assigns an access to every operand in memory, and a slot and a step to every value that is not a column value.
  void place(int i) {
    const RowInstruction& instruction = at(i);
    switch (instruction.kind) {
      case RowKind::constant: where(i) = place_constant(instruction); return;
      case RowKind::load: return place_load(i);
      case RowKind::reduce: return plan_.fusion(i).kind == TileFusion::Kind::pick ? place_pick(i) : place_reduction(i);
      case RowKind::iota: return place_index(i);
      case RowKind::elementwise:
        if (is_column(i)) return;
        where(i) = build_.new_scalar();
        steps_of(instruction).push_back(elementwise_step(i, where(i)));
        return;
    }
  }

  TileSlot place_constant(const RowInstruction& constant) {
    if (is_integer(constant.dtype)) return build_.integer(constant.integer);
    return build_.constant(constant.value);
  }

  void place_load(int i) {
    const RowInstruction& load = at(i);
    memory(i) = where(i) = build_.memory(TileMemory::input, load.input, load.access);
    if (is_column(i) || load.dtype == DType::fp32 || load.dtype == DType::int64) return;
    where(i) = build_.new_scalar();
    steps_of(load).push_back({.function = load_function(load.dtype, 1), .result = where(i), .a = memory(i)});
  }

  // The double becomes an fp32 scalar at the start of the next phase.
  void place_reduction(int i) {
    const TileSlot total = build_.new_reduction();
    where(i) = build_.new_scalar();
    build_.program.reduces_rows = true;
    build_.phase(at(i).phase).reductions.push_back({at(i).op, total});
    totals_.emplace_back(i, total);
    build_.row_steps(at(i).phase + 1).push_back({.function = tile::narrow_function(), .result = where(i), .a = total});
  }

  void place_pick(int i) {
    const auto [load, index, unused] = plan_.fusion(i).operands;
    where(i) = build_.new_scalar();
    build_.program.reduces_rows = build_.program.picks = true;
    build_.row_steps(at(i).phase)
        .push_back({.function = holds_integers(index) ? tile::integer_pick_function() : tile::pick_function(),
                    .result = where(i),
                    .a = build_.row_start(TileMemory::input, at(load).input, at(load).access),
                    .b = where(index),
                    .c = build_.integer(rows_.space.columns),
                    .stride = at(load).access.column_stride});
  }

  void place_index(int i) {
    const RowAccess& access = at(i).access;
    if (!holds_integers(i) && largest_index(rows_.space, access) > tile::kFirstInexactIndex)
      refuse_tile("an iota beyond 2^24, which fp32 does not represent exactly");
    if (is_column(i)) return;
    where(i) = build_.new_scalar();
    build_.row_steps(0).push_back({.function = holds_integers(i) ? index_value<std::int64_t> : index_value<float>,
                                   .result = where(i),
                                   .a = build_.index(access)});
  }

  // Uses the operands' current slots. A row value is a tile of one column, and so are its operands.
  TileStep elementwise_step(int i, TileSlot result) {
    const RowInstruction& instruction = at(i);
    const TileFusion& fusion = plan_.fusion(i);
    TileStep step{.result = result};
    bool scalar[3] = {};
    TileSlot* slots[] = {&step.a, &step.b, &step.c};
    for (std::size_t k = 0; k < 3 && fusion.operands[k] >= 0; ++k) {
      *slots[k] = where(fusion.operands[k]);
      scalar[k] = is_column(i) && !is_column(fusion.operands[k]);
    }
    if (fusion.kind == TileFusion::Kind::pair) {
      step.function = tile::pair_function(fusion.pair, scalar[0], scalar[1], scalar[2]);
    } else if (fusion.kind == TileFusion::Kind::compare_index) {
      step.function = holds_integers(fusion.operands[0]) ? tile::integer_compare_index_function(instruction.op)
                                                         : tile::compare_index_function(instruction.op);
      step.b = build_.index(at(instruction.operands[0]).access);
      step.stride = fusion.stride;
    } else if (const tile::Function function = integer_function(i, scalar); function != nullptr) {
      step.function = function;
    } else if (instruction.op == Op::where) {
      step.function = tile::where_function(scalar[0], scalar[1], scalar[2]);
    } else if (input_count(instruction.op) == 2) {
      step.function = tile::binary_function(instruction.op, scalar[0], scalar[1]);
    } else if (instruction.op == Op::cast) {
      step.function = tile::round_function(instruction.dtype);
    } else {
      step.function = scalar[0] ? tile::fill_function() : tile::unary_function(instruction.op);
    }
    if (step.function == nullptr)
      refuse_tile("op '" + std::string(name(instruction.op)) + "' to " + std::string(name(instruction.dtype)));
    return step;
  }

  // Null for an instruction without integer operands and results.
  tile::Function integer_function(int i, const bool (&scalar)[3]) const {
    const RowInstruction& instruction = at(i);
    const DType from = at(instruction.operands[0]).dtype;
    if (instruction.op == Op::where && holds_integers(i))
      return tile::integer_where_function(scalar[0], scalar[1], scalar[2]);
    if (instruction.op == Op::cast && (holds_integers(i) || is_integer(from)))
      return tile::integer_cast_function(from, instruction.dtype);
    if (instruction.op == Op::copy && holds_integers(i)) return tile::integer_copy_function(scalar[0]);
    const bool compares = input_count(instruction.op) == 2 && is_integer(from);
    return compares ? tile::integer_compare_function(instruction.op, scalar[0], scalar[1]) : nullptr;
  }

  void compile_phase(int phase) {
    const PhaseSchedule schedule = plan_.schedule(phase);
    build_.program.registers = std::max(build_.program.registers, static_cast<std::size_t>(schedule.registers));
    for (const ScheduledValue& value : schedule.values) {
      compute(phase, value);
      reduce_value(phase, value.instruction);
    }
    for (const int i : schedule.stores_at_end)
      add_step(phase, store_step(output(i), output(i).access.column_stride), Op::copy);
  }

  void add_step(int phase, const TileStep& step, Op cost) {
    build_.phase(phase).steps.push_back(step);
    build_.program.element_cost_ns += cost_ns(cost);
  }

  TileSlot row_buffer(int number) {
    while (static_cast<int>(buffers_.size()) <= number)
      buffers_.push_back(build_.buffer(TileMemory::row_buffer, build_.program.row_buffers++));
    return buffers_[static_cast<std::size_t>(number)];
  }

  TileSlot slot_of(const ScheduledValue& value) {
    switch (value.place) {
      case ValuePlace::in_memory: return memory(value.instruction);
      case ValuePlace::tile_register: return build_.tile_register(value.number);
      case ValuePlace::row_buffer:
      case ValuePlace::reloaded: return row_buffer(value.number);
      case ValuePlace::output: return output_access(output(value.number));
    }
    return kNoSlot;
  }

  // Records the slot of a column value in this phase, and computes the value if necessary.
  void compute(int phase, const ScheduledValue& value) {
    const int i = value.instruction;
    const RowInstruction& instruction = at(i);
    const TileSlot target = slot_of(value);
    where(i) = target;
    if (value.place == ValuePlace::in_memory || value.place == ValuePlace::reloaded) return;
    const std::int64_t stride = instruction.access.column_stride;
    if (instruction.kind == RowKind::load) {
      const tile::Function load = load_function(instruction.dtype, stride);
      add_step(phase, {.function = load, .result = target, .a = memory(i), .stride = stride}, Op::copy);
    } else if (instruction.kind == RowKind::iota) {
      const tile::Function iota = holds_integers(i) ? tile::integer_iota_function() : tile::iota_function();
      add_step(phase, {.function = iota, .result = target, .b = build_.index(instruction.access), .stride = stride},
               Op::copy);
    } else if (divides_by_reduction(instruction)) {
      const tile::Function multiply = tile::binary_function(Op::mul, false, true);
      const TileSlot inverse = reciprocal(instruction.operands[1], instruction.phase);
      add_step(phase, {.function = multiply, .result = target, .a = where(instruction.operands[0]), .b = inverse},
               Op::mul);
    } else {
      add_step(phase, elementwise_step(i, target), instruction.op);
    }
  }

  // Columns divided by a reduction of the row: one division for each row and one product for each column. This rounds
  // once more and needs a reduction that is a normal number; a division by an operand stays a division.
  bool divides_by_reduction(const RowInstruction& instruction) const {
    if (instruction.op != Op::div || !is_column(instruction.operands[0])) return false;
    const RowInstruction& divisor = at(instruction.operands[1]);
    return divisor.level == RowLevel::row && (divisor.kind == RowKind::reduce || divisor.phase > 0);
  }

  TileSlot reciprocal(int divisor, int phase) {
    const TileSlot inverse = build_.new_scalar();
    const tile::Function divide = tile::binary_function(Op::div, false, false);
    build_.row_steps(phase).push_back(
        {.function = divide, .result = inverse, .a = build_.constant(1.0), .b = where(divisor)});
    return inverse;
  }

  // Adds the steps of row reductions and column accumulations that read the value.
  void reduce_value(int phase, int value) {
    for (const auto& [i, total] : totals_) {
      if (at(i).operands[0] != value || at(i).phase != phase) continue;
      add_step(phase, {.function = tile::reduce_function(at(i).op), .result = total, .a = where(value)}, at(i).op);
    }
    for (const RowOutput& out : rows_.outputs) {
      if (out.store != RowStore::accumulate_columns || out.value != value || at(value).phase != phase) continue;
      const int number = build_.program.column_accumulations++;
      const TileSlot partial = build_.buffer(TileMemory::accumulator, number);
      add_step(phase, {.function = tile::accumulate_function(out.op), .result = partial, .a = where(value)}, out.op);
      build_.program.accumulations.push_back({.op = out.op,
                                              .columns = true,
                                              .number = number,
                                              .output = output_access(out),
                                              .dtype = out.access.dtype,
                                              .stride = out.access.column_stride});
    }
  }

  TileSlot output_access(const RowOutput& out) { return build_.memory(TileMemory::output, out.output, out.access); }

  TileStep store_step(const RowOutput& out, std::int64_t stride) {
    const TileSlot target = output_access(out);
    const int load = plan_.moved_load(out);
    if (load < 0) {
      const tile::Function store = store_function(out.access.dtype, stride);
      return {.function = store, .result = target, .a = where(out.value), .stride = stride};
    }
    return {.function = tile::move_function(size_bytes(at(load).dtype)),
            .result = target,
            .a = memory(load),
            .b = build_.integer(stride),
            .stride = at(load).access.column_stride};
  }

  void compile_row_end() {
    TileProgram& program = build_.program;
    for (const RowOutput& out : rows_.outputs) {
      if (out.store == RowStore::row) program.end_steps.push_back(store_step(out, 1));
      if (out.store != RowStore::accumulate_rows) continue;
      const TileSlot total = build_.new_reduction();
      program.end_steps.push_back({.function = tile::reduce_function(out.op), .result = total, .a = where(out.value)});
      program.accumulations.push_back({.op = out.op,
                                       .columns = false,
                                       .number = program.row_accumulations++,
                                       .slot = total,
                                       .output = output_access(out),
                                       .dtype = out.access.dtype});
    }
  }

  const RowProgram& rows_;
  PhasePlan plan_;
  TileBuilder build_;
  std::vector<TileSlot> where_;   // by instruction: its slot, in the phase being compiled
  std::vector<TileSlot> memory_;  // by instruction: where a load reads
  std::vector<TileSlot> buffers_;
  std::vector<std::pair<int, TileSlot>> totals_;  // reduce instructions and their doubles
};

}  // namespace

TileProgram compile_tiles(const RowProgram& program) { return Compiler(program).run(); }

}  // namespace ridgepoint::cpu
