// Compiles a row program to tile steps. Operands that are fp32 with unit stride are read where they lie and results
// that are stored so are computed where they go; everything else passes through registers of one tile.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "backends/cpu/tile_phase_plan.h"
#include "backends/cpu/tile_program.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cpu {
namespace {

constexpr std::int64_t kLargestExactIndex = std::int64_t{1} << 24;

// Slots are numbered within their kind until all are known.
enum class SlotKind : std::uint16_t { column, access, constant, scalar, reduction, tile_register, move };
constexpr int kKindShift = 12;
constexpr TileSlot kNumberMask = (1u << kKindShift) - 1;
TileSlot slot(SlotKind kind, std::size_t number) {
  return static_cast<TileSlot>((static_cast<std::size_t>(kind) << kKindShift) | number);
}

void index_value(void* result, const void* a, const void*, const void*, std::int64_t, std::int64_t) {
  *static_cast<float*>(result) = static_cast<float>(reinterpret_cast<std::intptr_t>(a));
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error("the cpu's tile interpreter cannot run " + what, ErrorKind::unsupported);
}

double cost_ns(Op op) {
  switch (op) {
    case Op::exp:
    case Op::expm1:
    case Op::log:
    case Op::sigmoid:
    case Op::tanh:
      return 0.5;
    case Op::div:
    case Op::sqrt:
    case Op::rsqrt:
      return 0.3;
    default:
      return 0.08;
  }
}

class Compiler {
 public:
  explicit Compiler(const RowProgram& program)
      : rows_(program), where_(program.instructions.size()), memory_(program.instructions.size()), plan_(program) {}

  TileProgram run() {
    out_.space = rows_.space;
    out_.phases.resize(static_cast<std::size_t>(rows_.phases));
    for (int i = 0; i < count(); ++i) place(i);
    for (int phase = 0; phase < rows_.phases; ++phase) compile_phase(phase);
    compile_end();
    finish();
    return std::move(out_);
  }

 private:
  int count() const { return static_cast<int>(rows_.instructions.size()); }
  const RowInstruction& at(int i) const { return rows_.instructions[static_cast<std::size_t>(i)]; }
  TileSlot& where(int i) { return where_[static_cast<std::size_t>(i)]; }

  TileSlot new_scalar() { return slot(SlotKind::scalar, out_.scalars++); }

  TileSlot new_access(TileMemory memory, int number, const RowAccess& access, std::int64_t element_bytes) {
    TileAccess made{.memory = memory, .number = number, .column_bytes = access.column_stride * element_bytes};
    std::int64_t walked = 0;  // by the axes within
    bool varies = false;
    for (std::size_t d = rows_.space.rows.size(); d-- > 0;) {
      made.row_bytes[d] = access.row_strides[d] * element_bytes;
      made.row_advance[d] = made.row_bytes[d] - walked;
      walked += made.row_bytes[d] * (rows_.space.rows[d] - 1);
      varies = varies || made.row_bytes[d] != 0;
    }
    out_.accesses.push_back(made);
    const TileSlot result = slot(SlotKind::access, out_.accesses.size() - 1);
    if (varies) out_.row_varying.push_back(result);
    return result;
  }

  TileSlot memory_access(TileMemory memory, int number, const RowAccess& access) {
    if (access.dtype == DType::fp64) refuse("fp64");
    if (std::abs(access.column_stride) > 1) out_.strided = true;
    return new_access(memory, number, access, static_cast<std::int64_t>(size_bytes(access.dtype)));
  }

  TileSlot buffer_access(TileMemory memory, int number) {
    return new_access(memory, number, RowAccess{.dtype = DType::fp32, .column_stride = 1}, sizeof(float));
  }

  // Row steps of the phase after the last sweep join the end.
  std::vector<TileStep>& row_steps(int phase) {
    return phase < rows_.phases ? out_.phases[static_cast<std::size_t>(phase)].row_steps : row_steps_after_last_;
  }

  // Gives every value that does not vary with the column its slot, and its step to the list it belongs to.
  void place(int i) {
    const RowInstruction& instruction = at(i);
    check_index(instruction);
    switch (instruction.kind) {
      case RowKind::constant:
        out_.constants.push_back(static_cast<float>(instruction.value));
        where(i) = slot(SlotKind::constant, out_.constants.size() - 1);
        return;
      case RowKind::load:
        return place_load(i);
      case RowKind::reduce:
        return place_reduction(i);
      case RowKind::iota:
        if (instruction.level == RowLevel::row) place_row_index(i);
        return;
      case RowKind::elementwise:
        break;
    }
    if (instruction.level == RowLevel::column) return;
    where(i) = new_scalar();
    (instruction.level == RowLevel::uniform ? out_.uniform_steps : row_steps(instruction.phase))
        .push_back(elementwise_step(instruction, where(i)));
  }

  void place_load(int i) {
    const RowInstruction& load = at(i);
    where(i) = memory_access(TileMemory::input, load.input, load.access);
    memory_[static_cast<std::size_t>(i)] = where(i);
    if (load.level == RowLevel::column || load.dtype == DType::fp32) return;
    const TileSlot scalar = new_scalar();
    (load.level == RowLevel::uniform ? out_.uniform_steps : row_steps(0))
        .push_back({.function = tile::load_function(load.dtype, 1), .result = scalar, .a = where(i)});
    where(i) = scalar;
  }

  // The scalar is read off the double at the start of the next phase.
  void place_reduction(int i) {
    const TileSlot total = slot(SlotKind::reduction, out_.reductions++);
    where(i) = new_scalar();
    out_.reduces_rows = true;
    out_.phases[static_cast<std::size_t>(at(i).phase)].reductions.push_back({at(i).op, total});
    totals_.emplace_back(i, total);
    row_steps(at(i).phase + 1).push_back({.function = tile::narrow_function(), .result = where(i), .a = total});
  }

  void place_row_index(int i) {
    const TileSlot index = new_access(TileMemory::index, 0, at(i).access, 1);
    where(i) = new_scalar();
    row_steps(0).push_back({.function = index_value, .result = where(i), .a = index});
  }

  void check_index(const RowInstruction& instruction) const {
    if (instruction.kind != RowKind::iota) return;
    std::int64_t largest = (rows_.space.columns - 1) * instruction.access.column_stride;
    for (std::size_t d = 0; d < rows_.space.rows.size(); ++d) {
      largest += (rows_.space.rows[d] - 1) * instruction.access.row_strides[d];
    }
    if (largest > kLargestExactIndex) refuse("an iota past 2^24, which fp32 does not hold exactly");
  }

  // `where` must hold the operands' current slots.
  TileStep elementwise_step(const RowInstruction& instruction, TileSlot result) {
    const auto scalar = [&](int k) {
      const int operand = instruction.operands[static_cast<std::size_t>(k)];
      // A row value is computed one column at a time: all its operands count as one column.
      return instruction.level == RowLevel::column && at(operand).level != RowLevel::column;
    };
    TileStep step{.result = result, .a = where(instruction.operands[0])};
    if (instruction.operands[1] >= 0) step.b = where(instruction.operands[1]);
    if (instruction.operands[2] >= 0) step.c = where(instruction.operands[2]);
    if (instruction.op == Op::where) {
      step.function = tile::where_function(scalar(0), scalar(1), scalar(2));
    } else if (instruction.operands[1] >= 0) {
      step.function = tile::binary_function(instruction.op, scalar(0), scalar(1));
    } else if (instruction.op == Op::copy) {
      step.function = scalar(0) ? tile::fill_function() : tile::unary_function(Op::copy);
    } else {
      step.function =
          instruction.op == Op::cast ? tile::round_function(instruction.dtype) : tile::unary_function(instruction.op);
    }
    if (step.function == nullptr)
      refuse("op '" + std::string(name(instruction.op)) + "' to " + std::string(name(instruction.dtype)));
    return step;
  }

  // The columns of one phase.
  void compile_phase(int phase) {
    const PhaseSchedule schedule = plan_.schedule(phase);
    TilePhase& made = out_.phases[static_cast<std::size_t>(phase)];
    out_.registers = std::max(out_.registers, static_cast<std::size_t>(schedule.registers));
    for (const ScheduledValue& value : schedule.values) {
      compute(made, value);
      use(made, phase, value.instruction);
    }
    for (const int output : schedule.stores_at_end)
      store_element(made, rows_.outputs[static_cast<std::size_t>(output)]);
    collect_moving(made);
  }

  TileSlot buffer_slot(int buffer) {
    while (static_cast<int>(buffer_slots_.size()) <= buffer) {
      buffer_slots_.push_back(buffer_access(TileMemory::row_buffer, static_cast<int>(buffer_slots_.size())));
      out_.row_buffers = static_cast<int>(buffer_slots_.size());
    }
    return buffer_slots_[static_cast<std::size_t>(buffer)];
  }

  // Emits the step that brings a value to its place in this phase, if it takes one.
  void compute(TilePhase& made, const ScheduledValue& value) {
    const RowInstruction& instruction = at(value.instruction);
    TileSlot& target = where(value.instruction);
    switch (value.place) {
      case ValuePlace::in_memory:
        target = memory_[static_cast<std::size_t>(value.instruction)];
        return;
      case ValuePlace::reloaded:
        target = buffer_slot(value.number);
        return;
      case ValuePlace::tile_register:
        target = slot(SlotKind::tile_register, static_cast<std::size_t>(value.number));
        break;
      case ValuePlace::row_buffer:
        target = buffer_slot(value.number);
        break;
      case ValuePlace::output:
        target = output_access(rows_.outputs[static_cast<std::size_t>(value.number)]);
        break;
    }
    out_.element_cost_ns += cost_ns(instruction.kind == RowKind::elementwise ? instruction.op : Op::copy);
    const std::int64_t stride = instruction.access.column_stride;
    if (instruction.kind == RowKind::load) {
      const TileSlot memory = memory_[static_cast<std::size_t>(value.instruction)];
      made.steps.push_back({.function = tile::load_function(instruction.dtype, stride),
                            .result = target,
                            .a = memory,
                            .stride = stride});
    } else if (instruction.kind == RowKind::iota) {
      made.steps.push_back({.function = tile::iota_function(), .result = target, .b = kColumnSlot, .stride = stride});
    } else if (divides_by_reduction(instruction)) {
      const TileSlot inverse = reciprocal(instruction.operands[1], instruction.phase);
      made.steps.push_back({.function = tile::binary_function(Op::mul, false, true),
                            .result = target,
                            .a = where(instruction.operands[0]),
                            .b = inverse});
    } else {
      made.steps.push_back(elementwise_step(instruction, target));
    }
  }

  // Columns over a row's own sum: one division a row and a product a column instead. Rounds once more, and needs
  // sums that are normal numbers; a plain division by an operand stays one.
  bool divides_by_reduction(const RowInstruction& instruction) const {
    if (instruction.op != Op::div || at(instruction.operands[0]).level != RowLevel::column) return false;
    const RowInstruction& divisor = at(instruction.operands[1]);
    return divisor.level == RowLevel::row && (divisor.kind == RowKind::reduce || divisor.phase > 0);
  }

  TileSlot reciprocal(int divisor, int phase) {
    out_.constants.push_back(1.0f);
    const TileSlot one = slot(SlotKind::constant, out_.constants.size() - 1);
    const TileSlot inverse = new_scalar();
    row_steps(phase).push_back(
        {.function = tile::binary_function(Op::div, false, false), .result = inverse, .a = one, .b = where(divisor)});
    return inverse;
  }

  // Row reductions and column accumulations that take the value in.
  void use(TilePhase& made, int phase, int value) {
    for (const auto& [i, total] : totals_) {
      if (at(i).operands[0] != value || at(i).phase != phase) continue;
      made.steps.push_back({.function = tile::reduce_function(at(i).op), .result = total, .a = where(value)});
      out_.element_cost_ns += cost_ns(at(i).op);
    }
    for (const RowOutput& output : rows_.outputs) {
      if (output.store != RowStore::accumulate_columns || output.value != value || at(value).phase != phase) continue;
      const int number = out_.column_accumulations++;
      const TileSlot partial = buffer_access(TileMemory::accumulator, number);
      made.steps.push_back({.function = tile::accumulate_function(output.op), .result = partial, .a = where(value)});
      out_.element_cost_ns += cost_ns(output.op);
      out_.accumulations.push_back({.op = output.op,
                                    .columns = true,
                                    .number = number,
                                    .output = output_access(output),
                                    .dtype = output.access.dtype,
                                    .stride = output.access.column_stride});
    }
  }

  TileSlot output_access(const RowOutput& output) {
    return memory_access(TileMemory::output, output.output, output.access);
  }

  TileStep store_step(const RowOutput& output, std::int64_t stride) {
    const TileSlot target = output_access(output);
    if (const int load = plan_.moved_load(output); load >= 0) {
      out_.move_strides.push_back({stride});
      return {.function = tile::move_function(size_bytes(at(load).dtype)),
              .result = target,
              .a = memory_[static_cast<std::size_t>(load)],
              .b = slot(SlotKind::move, out_.move_strides.size() - 1),
              .stride = at(load).access.column_stride};
    }
    return {.function = tile::store_function(output.access.dtype, stride),
            .result = target,
            .a = where(output.value),
            .stride = stride};
  }

  void store_element(TilePhase& made, const RowOutput& output) {
    made.steps.push_back(store_step(output, output.access.column_stride));
    out_.element_cost_ns += cost_ns(Op::copy);
  }

  void compile_end() {
    out_.end_steps = std::move(row_steps_after_last_);
    for (const RowOutput& output : rows_.outputs) {
      if (output.store == RowStore::row) out_.end_steps.push_back(store_step(output, 1));
      if (output.store != RowStore::accumulate_rows) continue;
      const TileSlot total = slot(SlotKind::reduction, out_.reductions++);
      out_.end_steps.push_back(
          {.function = tile::reduce_function(output.op), .result = total, .a = where(output.value)});
      out_.accumulations.push_back({.op = output.op,
                                    .columns = false,
                                    .number = out_.row_accumulations++,
                                    .slot = total,
                                    .output = output_access(output),
                                    .dtype = output.access.dtype});
    }
  }

  void collect_moving(TilePhase& made) {
    for (const TileStep& step : made.steps) {
      for (const TileSlot used : {step.result, step.a, step.b, step.c}) {
        if (used >> kKindShift != static_cast<int>(SlotKind::access)) continue;
        if (out_.accesses[used & kNumberMask].column_bytes == 0) continue;
        if (std::find(made.moving.begin(), made.moving.end(), used) == made.moving.end()) made.moving.push_back(used);
      }
    }
  }

  // Numbers the slots across kinds and fixes the tile width.
  void finish() {
    if (out_.accesses.size() > kMaxTileAccesses || out_.scalars > kMaxTileScalars ||
        out_.reductions > kMaxTileReductions || out_.slots() > kMaxTileSlots) {
      refuse("a body of this size (" + std::to_string(rows_.instructions.size()) + " instructions)");
    }
    for (TilePhase& phase : out_.phases) {
      renumber(phase.row_steps);
      renumber(phase.steps);
      for (TileReduction& reduction : phase.reductions) reduction.slot = renumbered(reduction.slot);
      for (TileSlot& moving : phase.moving) moving = renumbered(moving);
    }
    for (TileSlot& varying : out_.row_varying) varying = renumbered(varying);
    renumber(out_.uniform_steps);
    renumber(out_.end_steps);
    for (TileAccumulation& accumulation : out_.accumulations) {
      accumulation.slot = renumbered(accumulation.slot);
      accumulation.output = renumbered(accumulation.output);
    }
    // A column accumulation may need its fp32 and double totals in scratch besides.
    const std::size_t units = out_.registers + 3 * static_cast<std::size_t>(out_.column_accumulations);
    if (units > 0) {
      const auto fitting = static_cast<std::int64_t>(kTileScratchBytes / (units * sizeof(float)));
      out_.tile_columns = std::clamp<std::int64_t>(fitting / 64 * 64, 64, kMaxTileColumns);
      if (units * 64 * sizeof(float) > kTileScratchBytes)
        refuse("a body with " + std::to_string(units) + " values at once");
    }
    if (out_.strided) out_.tile_columns = std::min<std::int64_t>(out_.tile_columns, 128);
  }

  void renumber(std::vector<TileStep>& steps) const {
    for (TileStep& step : steps) {
      step.result = renumbered(step.result);
      step.a = renumbered(step.a);
      step.b = renumbered(step.b);
      step.c = renumbered(step.c);
    }
  }

  TileSlot renumbered(TileSlot from) const {
    const std::size_t sizes[] = {
        1, out_.accesses.size(), out_.constants.size(), out_.scalars, out_.reductions, out_.registers};
    std::size_t base = 0;
    for (std::size_t kind = 0; kind < static_cast<std::size_t>(from >> kKindShift); ++kind) base += sizes[kind];
    return static_cast<TileSlot>(base + (from & kNumberMask));
  }

  const RowProgram& rows_;
  TileProgram out_;
  std::vector<TileSlot> where_;   // by instruction: its slot, in the phase being compiled
  std::vector<TileSlot> memory_;  // by instruction: where a load reads
  PhasePlan plan_;
  std::vector<TileStep> row_steps_after_last_;
  std::vector<TileSlot> buffer_slots_;
  std::vector<std::pair<int, TileSlot>> totals_;  // reduce instructions and their doubles
};

}  // namespace

TileProgram compile_tiles(const RowProgram& program) { return Compiler(program).run(); }

}  // namespace ridgepoint::cpu
