// Plans what each sweep over a row's columns computes, in which order, and where each column value is kept.
#pragma once

#include <vector>

#include "backends/cpu/tile/fusion.h"
#include "lowering/row_program.h"

namespace ridgepoint::cpu {

// in_memory: read from the operand's memory. output: computed in the output's memory. row_buffer: computed into a
// buffer of one row, for a later sweep. reloaded: read from a buffer that an earlier sweep filled.
enum class ValuePlace : std::uint8_t { in_memory, tile_register, row_buffer, reloaded, output };

struct ScheduledValue {
  int instruction = 0;
  ValuePlace place = ValuePlace::in_memory;
  int number = 0;  // which register, row buffer, or output (an index into RowProgram::outputs)
};

struct PhaseSchedule {
  std::vector<ScheduledValue> values;  // in SSA order
  std::vector<int> stores_at_end;      // indices into RowProgram::outputs
  int registers = 0;
};

// A value that a later sweep needs is computed again if that is cheap, and kept in a row buffer otherwise. Elements are
// stored in the last sweep only, after all reads of an operand that could share memory with the output (same dtype and
// strides).
class PhasePlan {
 public:
  explicit PhasePlan(const RowProgram& program);
  PhaseSchedule schedule(int phase) const;
  const TileFusion& fusion(int i) const { return fusions_[static_cast<std::size_t>(i)]; }

  // The instruction of a load that the output copies in the same dtype, so that its bits can be moved without
  // conversion; -1 if there is none.
  int moved_load(const RowOutput& output) const;

 private:
  const RowInstruction& at(int i) const { return program_.instructions[static_cast<std::size_t>(i)]; }
  bool is_column(int i) const { return at(i).level == RowLevel::column; }
  bool readable_in_place(int i) const;
  bool stored_in(const RowOutput& output, int phase) const;
  bool used_after_own_phase(int value) const;
  int recompute_cost(int value) const;
  bool has_operand_of_other_width(int value) const;
  std::vector<bool> needed_in(int phase) const;
  bool could_overwrite(const RowOutput& output, int position, const std::vector<int>& read_until) const;
  std::vector<int> last_uses(int phase, const std::vector<bool>& needed) const;
  void place_outputs(PhaseSchedule& schedule, const std::vector<int>& last_use) const;
  void assign_registers(PhaseSchedule& schedule, const std::vector<int>& last_use) const;

  const RowProgram& program_;
  int last_phase_;
  bool one_element_output_;
  std::vector<TileFusion> fusions_;  // by instruction
  std::vector<int> buffer_;          // by instruction: its row buffer, or -1
};

}  // namespace ridgepoint::cpu
