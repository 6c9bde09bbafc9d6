// A row program compiled for the tile interpreter: flat lists of steps, each one vectorised function over a tile of
// columns, with every operand resolved to a slot. While running, a slot is an address.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backends/cpu/tile/functions/functions.h"
#include "lowering/row_program.h"

namespace ridgepoint::cpu {

// Limits that let a worker keep its state on the stack; compile_tiles() refuses what does not fit.
inline constexpr std::size_t kMaxTileSlots = 256;
inline constexpr std::size_t kMaxTileAccesses = 64;
inline constexpr std::size_t kMaxTileScalars = 96;
inline constexpr std::size_t kMaxTileReductions = 16;
inline constexpr std::size_t kTileScratchBytes = 24 * 1024;  // leaves room in a 32 KiB level-1 cache for operands
// Short enough for the processor to run ahead: one step's loads from memory overlap the arithmetic of those before.
inline constexpr std::int64_t kMaxTileColumns = 256;

// Slot 0 is the address of the sweep's column number; operands that a step does not have name it too.
using TileSlot = std::uint16_t;
inline constexpr TileSlot kColumnSlot = 0;

struct TileStep {
  tile::Function function = nullptr;
  TileSlot result = kColumnSlot;
  TileSlot a = kColumnSlot;
  TileSlot b = kColumnSlot;
  TileSlot c = kColumnSlot;
  std::int64_t stride = 1;
};

// What an address walks over. `index` is no memory: the address itself is a row index (an iota's value).
// `accumulator` holds fp32 partial sums of columns.
enum class TileMemory : std::uint8_t { input, output, row_buffer, accumulator, index };

struct TileAccess {
  TileMemory memory = TileMemory::input;
  int number = 0;  // which input, output, buffer or accumulator
  std::array<std::int64_t, kMaxRank> row_bytes{};
  // What to add to the address when row axis d moves on and those within it start afresh.
  std::array<std::int64_t, kMaxRank> row_advance{};
  std::int64_t column_bytes = 0;
};

struct TileReduction {
  Op op = Op::reduce_sum;
  TileSlot slot = 0;
};

// One sweep over the columns of a row.
struct TilePhase {
  std::vector<TileStep> row_steps;        // run once, before the sweep
  std::vector<TileStep> steps;            // run for each tile
  std::vector<TileSlot> moving;           // accesses whose address changes with the column
  std::vector<TileReduction> reductions;  // begun before the sweep
};

// A reduction over the rows of a group. Columns: fp32 partial sums in accumulator `number`, doubles beside them.
// Otherwise a row value, reduced in double.
struct TileAccumulation {
  Op op = Op::reduce_sum;
  bool columns = true;
  int number = 0;       // among the accumulations of its kind
  TileSlot slot = 0;    // the double of a row value
  TileSlot output = 0;  // the access it is stored to
  DType dtype = DType::fp32;
  std::int64_t stride = 1;
};

struct TileProgram {
  RowSpace space;
  std::int64_t tile_columns = kMaxTileColumns;
  std::size_t value_bytes = sizeof(float);  // of a register's or row buffer's element: 8 where some are integers
  std::vector<TileStep> uniform_steps;
  std::vector<TilePhase> phases;
  std::vector<TileStep> end_steps;  // after the last sweep of a row
  std::vector<TileAccumulation> accumulations;

  // Slots stand in this order: the column number, accesses, constants, scalars, reductions, registers,
  // integers.
  std::vector<TileAccess> accesses;
  std::vector<TileSlot> row_varying;  // accesses whose address changes with the row
  std::vector<float> constants;
  std::vector<std::int64_t> integers;
  std::size_t scalars = 0;
  std::size_t reductions = 0;
  std::size_t registers = 0;
  int row_buffers = 0;
  int column_accumulations = 0;
  int row_accumulations = 0;

  bool strided = false;          // some operand is walked column by column with a stride
  bool reduces_rows = false;     // has a row reduction
  double element_cost_ns = 0.0;  // rough, to decide how many threads are worth waking

  std::size_t slots() const {
    return accesses.size() + constants.size() + scalars + reductions + registers + 1 + integers.size();
  }
};

// Throws Error (unsupported) for fp64, for indices in fp32 past 2^24 (it would not hold them) and for programs beyond
// the limits above.
TileProgram compile_tiles(const RowProgram& program);

}  // namespace ridgepoint::cpu
