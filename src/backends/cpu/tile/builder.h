// The slots of a tile program under construction: hands them out by kind, numbers them across kinds at the end.
#pragma once

#include <string>

#include "backends/cpu/tile/program.h"

namespace ridgepoint::cpu {

// Throws Error (unsupported): "the cpu's tile interpreter cannot run <what>".
[[noreturn]] void refuse_tile(const std::string& what);

class TileBuilder {
 public:
  explicit TileBuilder(const RowProgram& rows);

  TileSlot new_scalar();
  TileSlot new_reduction();
  TileSlot constant(double value);
  TileSlot integer(std::int64_t value);
  TileSlot tile_register(int number) const;

  // Memory of the body, walked as the access says. Refuses fp64.
  TileSlot memory(TileMemory kind, int number, const RowAccess& access);
  // The same memory at column 0 of the current row, whatever the sweep does.
  TileSlot row_start(TileMemory kind, int number, RowAccess access);
  // A row of the interpreter's own: of fp32 sums, or of values as registers hold them.
  TileSlot buffer(TileMemory kind, int number);
  // The row part of an iota: the address is the value.
  TileSlot row_index(const RowAccess& access);

  // Row values of a phase; those of the phase after the last sweep are computed at the end of a row.
  std::vector<TileStep>& row_steps(int phase);
  TilePhase& phase(int phase) { return program.phases[static_cast<std::size_t>(phase)]; }

  // Numbers the slots and fixes the tile width. Refuses programs beyond the limits of tile_program.h.
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
