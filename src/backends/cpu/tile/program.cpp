#include "backends/cpu/tile/program.h"

#include <algorithm>
#include <cstdlib>

#include "ridgepoint/core/error.h"

namespace ridgepoint::cpu {
namespace {

// Until finish(), a slot is its kind and its number within the kind.
enum class SlotKind : std::uint16_t { column, access, constant, scalar, reduction, tile_register, integer };
constexpr int kKindShift = 12;
constexpr TileSlot kNumberMask = (1u << kKindShift) - 1;
// Each column of strided memory uses its own cache line: in a narrow tile these stay in cache for the next row.
constexpr std::int64_t kStridedTileColumns = 128;
constexpr std::int64_t kTileStep = 64;

TileSlot make_slot(SlotKind kind, std::size_t number) {
  return static_cast<TileSlot>((static_cast<std::size_t>(kind) << kKindShift) | number);
}

bool is_access(TileSlot slot) { return slot >> kKindShift == static_cast<int>(SlotKind::access); }

}  // namespace

void refuse_tile(const std::string& what) {
  throw Error("the CPU's tile interpreter cannot run " + what, ErrorKind::unsupported);
}

TileBuilder::TileBuilder(const RowProgram& rows) : rows_(rows) {
  program.space = rows.space;
  program.phases.resize(static_cast<std::size_t>(rows.phases));
}

TileSlot TileBuilder::new_scalar() { return make_slot(SlotKind::scalar, program.scalars++); }
TileSlot TileBuilder::new_reduction() { return make_slot(SlotKind::reduction, program.reductions++); }

TileSlot TileBuilder::constant(double value) {
  program.constants.push_back(static_cast<float>(value));
  return make_slot(SlotKind::constant, program.constants.size() - 1);
}

TileSlot TileBuilder::integer(std::int64_t value) {
  program.integers.push_back(value);
  return make_slot(SlotKind::integer, program.integers.size() - 1);
}

TileSlot TileBuilder::tile_register(int number) const {
  return make_slot(SlotKind::tile_register, static_cast<std::size_t>(number));
}

TileSlot TileBuilder::new_access(TileMemory kind, int number, const RowAccess& access, std::int64_t element_bytes) {
  TileAccess made{.memory = kind, .number = number, .column_bytes = access.column_stride * element_bytes};
  std::int64_t walked = 0;  // by the inner axes
  bool varies = false;
  for (std::size_t d = rows_.space.rows.size(); d-- > 0;) {
    made.row_bytes[d] = access.row_strides[d] * element_bytes;
    made.row_advance[d] = made.row_bytes[d] - walked;
    walked += made.row_bytes[d] * (rows_.space.rows[d] - 1);
    varies = varies || made.row_bytes[d] != 0;
  }
  program.accesses.push_back(made);
  const TileSlot slot = make_slot(SlotKind::access, program.accesses.size() - 1);
  if (varies) program.row_varying.push_back(slot);
  return slot;
}

TileSlot TileBuilder::memory(TileMemory kind, int number, const RowAccess& access) {
  if (access.dtype == DType::fp64) refuse_tile("fp64");
  if (std::abs(access.column_stride) > 1) program.strided = true;
  return new_access(kind, number, access, static_cast<std::int64_t>(size_bytes(access.dtype)));
}

TileSlot TileBuilder::row_start(TileMemory kind, int number, RowAccess access) {
  access.column_stride = 0;
  return memory(kind, number, access);
}

TileSlot TileBuilder::buffer(TileMemory kind, int number) {
  const std::size_t bytes = kind == TileMemory::accumulator ? sizeof(float) : program.value_bytes;
  return new_access(kind, number, RowAccess{.column_stride = 1}, static_cast<std::int64_t>(bytes));
}

TileSlot TileBuilder::index(const RowAccess& access) { return new_access(TileMemory::index, 0, access, 1); }

std::vector<TileStep>& TileBuilder::row_steps(int phase_number) {
  return phase_number < rows_.phases ? phase(phase_number).row_steps : program.end_steps;
}

void TileBuilder::collect_moving(TilePhase& made) const {
  for (const TileStep& step : made.steps) {
    for (const TileSlot used : {step.result, step.a, step.b, step.c}) {
      if (!is_access(used) || program.accesses[used & kNumberMask].column_bytes == 0) continue;
      if (std::find(made.moving.begin(), made.moving.end(), used) == made.moving.end()) made.moving.push_back(used);
    }
  }
}

void TileBuilder::check_limits() const {
  if (program.accesses.size() > kMaxTileAccesses || program.scalars > kMaxTileScalars ||
      program.reductions > kMaxTileReductions || program.slots() > kMaxTileSlots) {
    refuse_tile("a body of " + std::to_string(rows_.instructions.size()) + " instructions");
  }
}

// Registers must fit in the scratch memory, and so must the fp32 and double totals of column accumulations.
void TileBuilder::choose_tile_columns() {
  const std::size_t column_bytes = program.registers * program.value_bytes +
                                   static_cast<std::size_t>(program.column_accumulations) * 3 * sizeof(float);
  if (column_bytes > 0) {
    const auto fitting = static_cast<std::int64_t>(kTileScratchBytes / column_bytes);
    if (fitting < kTileStep)
      refuse_tile("a body that holds " + std::to_string(column_bytes) + " bytes of values for each column");
    program.tile_columns = std::min(fitting / kTileStep * kTileStep, kMaxTileColumns);
  }
  if (program.strided) program.tile_columns = std::min(program.tile_columns, kStridedTileColumns);
}

TileProgram TileBuilder::finish() {
  check_limits();
  choose_tile_columns();
  for (TilePhase& phase : program.phases) {
    collect_moving(phase);
    renumber(phase.row_steps);
    renumber(phase.steps);
    for (TileReduction& reduction : phase.reductions) reduction.slot = renumbered(reduction.slot);
    for (TileSlot& moving : phase.moving) moving = renumbered(moving);
  }
  for (TileSlot& varying : program.row_varying) varying = renumbered(varying);
  renumber(program.uniform_steps);
  renumber(program.end_steps);
  for (TileAccumulation& accumulation : program.accumulations) {
    accumulation.slot = renumbered(accumulation.slot);
    accumulation.output = renumbered(accumulation.output);
  }
  return std::move(program);
}

void TileBuilder::renumber(std::vector<TileStep>& steps) const {
  for (TileStep& step : steps) {
    step.result = renumbered(step.result);
    step.a = renumbered(step.a);
    step.b = renumbered(step.b);
    step.c = renumbered(step.c);
  }
}

TileSlot TileBuilder::renumbered(TileSlot slot) const {
  const std::size_t sizes[] = {1,
                               program.accesses.size(),
                               program.constants.size(),
                               program.scalars,
                               program.reductions,
                               program.registers,
                               program.integers.size()};
  std::size_t base = 0;
  for (std::size_t kind = 0; kind < static_cast<std::size_t>(slot >> kKindShift); ++kind) base += sizes[kind];
  return static_cast<TileSlot>(base + (slot & kNumberMask));
}

}  // namespace ridgepoint::cpu
