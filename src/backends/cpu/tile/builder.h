// Builds a tile program: assigns slots by kind, and numbers them across kinds at the end.
#pragma once

#include <string>

#include "backends/cpu/tile/program.h"

namespace ridgepoint::cpu {

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
  // The part of an iota that depends on the row: the slot's address is the value.
  TileSlot row_index(const RowAccess& access);

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
