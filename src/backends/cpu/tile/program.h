// A row program compiled for the tile interpreter: lists of steps, each one vectorised function over a tile of columns,
// with slots as operands. At run time a slot is an address.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cpu/tile/functions/functions.h"
#include "lowering/row_program.h"

namespace ridgepoint::cpu {

// Limits that allow a worker to have its state on the stack; compile_tiles() refuses larger programs.
inline constexpr std::size_t kMaxTileSlots = 256;
inline constexpr std::size_t kMaxTileAccesses = 64;
inline constexpr std::size_t kMaxTileScalars = 96;
inline constexpr std::size_t kMaxTileReductions = 16;
inline constexpr std::size_t kTileScratchBytes = 24 * 1024;  // leaves room in a 32 KiB level-1 cache for operands
// Short enough for out-of-order execution to overlap one step's loads with the arithmetic of earlier steps.
inline constexpr std::int64_t kMaxTileColumns = 256;

// Slot 0 stands for operands that a step does not have.
using TileSlot = std::uint16_t;
inline constexpr TileSlot kNoSlot = 0;

struct TileStep {
  tile::Function function = nullptr;
  TileSlot result = kNoSlot;
  TileSlot a = kNoSlot;
  TileSlot b = kNoSlot;
  TileSlot c = kNoSlot;
  std::int64_t stride = 1;
};

// What an address points into. `index` is not memory: the address itself is an iota's value.
// `accumulator` has fp32 partial sums of columns.
enum class TileMemory : std::uint8_t { input, output, row_buffer, accumulator, index };

struct TileAccess {
  TileMemory memory = TileMemory::input;
  int number = 0;  // which input, output, buffer or accumulator
  std::array<std::int64_t, kMaxRank> row_bytes{};
  // The bytes to add to the address when row axis d advances and the inner axes return to 0.
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
  std::vector<TileReduction> reductions;  // reset before the sweep
};

// A reduction over the rows of a group. `columns`: fp32 partial sums in accumulator `number`, then doubles. Otherwise a
// row value that is reduced in double.
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
  std::size_t value_bytes = sizeof(float);  // of an element in registers and row buffers: 8 if some are integers
  std::vector<TileStep> uniform_steps;
  std::vector<TilePhase> phases;
  std::vector<TileStep> end_steps;  // after the last sweep of a row
  std::vector<TileAccumulation> accumulations;

  // Slots are numbered in this order: the column number, accesses, constants, scalars, reductions, registers, integers.
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

  bool strided = false;          // some operand has a column stride above 1
  bool reduces_rows = false;     // has a row reduction
  bool picks = false;            // one of its row reductions reads one element of an operand
  double element_cost_ns = 0.0;  // rough, to choose the number of threads

  std::size_t slots() const {
    return accesses.size() + constants.size() + scalars + reductions + registers + 1 + integers.size();
  }
};

// Throws Error (unsupported) for fp64, for fp32 indices beyond 2^24, and for programs beyond the limits above.
TileProgram compile_tiles(const RowProgram& program);

// Builds a tile program: assigns slots by kind, and numbers them across kinds at the end.

// Throws Error (unsupported): "the CPU's tile interpreter cannot run <what>".
[[noreturn]] void refuse_tile(const std::string& what);

class TileBuilder {
 public:
  explicit TileBuilder(const RowProgram& rows);

  TileSlot new_scalar();
  TileSlot new_reduction();
  TileSlot constant(double value);
  TileSlot integer(std::int64_t value);
  TileSlot tile_register(int number) const;

  // An input or output of the body, accessed with the strides of `access`. Refuses fp64.
  TileSlot memory(TileMemory kind, int number, const RowAccess& access);
  // The same memory at column 0 of the current row, during the whole sweep.
  TileSlot row_start(TileMemory kind, int number, RowAccess access);
  // A row in the interpreter's memory: of fp32 sums, or of values as registers have them.
  TileSlot buffer(TileMemory kind, int number);
  // The value of an iota in the row, at the first column of the tile: the slot's address is the value.
  TileSlot index(const RowAccess& access);

  // The steps that compute row values before a phase's sweep; for the phase after the last one, at the end of the row.
  std::vector<TileStep>& row_steps(int phase);
  TilePhase& phase(int phase) { return program.phases[static_cast<std::size_t>(phase)]; }

  // Numbers the slots and chooses the tile width. Refuses programs beyond the limits of program.h.
  TileProgram finish();

  TileProgram program;

 private:
  TileSlot new_access(TileMemory kind, int number, const RowAccess& access, std::int64_t element_bytes);
  void collect_moving(TilePhase& phase) const;
  void check_limits() const;
  void choose_tile_columns();
  void renumber(std::vector<TileStep>& steps) const;
  TileSlot renumbered(TileSlot slot) const;

  const RowProgram& rows_;
};

}  // namespace ridgepoint::cpu
