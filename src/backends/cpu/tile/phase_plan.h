// What each sweep over a row's columns computes, in which order, and where every column value lies meanwhile.
#pragma once

#include <vector>

#include "backends/cpu/tile/fusion.h"
#include "lowering/row_program.h"

namespace ridgepoint::cpu {

// in_memory: read where the operand lies. output: computed where it is stored. row_buffer: computed into a buffer of
// one row, for a later sweep. reloaded: read from the buffer an earlier sweep filled.
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

// A value needed by a later sweep is computed again when that is cheap and kept in a row buffer otherwise. Elements
// are stored in the last sweep only, after every operand that the output could share memory with (same dtype and
// strides) has been read.
class PhasePlan {
 public:
  explicit PhasePlan(const RowProgram& program);
  PhaseSchedule schedule(int phase) const;
  const TileFusion& fusion(int i) const { return fusions_[static_cast<std::size_t>(i)]; }

  // Whether the output only repeats a load of its own dtype: its bits can be moved without passing through fp32.
  // Then the load's instruction, -1 otherwise.
  int moved_load(const RowOutput& output) const;

 private:
  const RowInstruction& at(int i) const { return program_.instructions[static_cast<std::size_t>(i)]; }
  bool is_column(int i) const { return at(i).level == RowLevel::column; }
  bool readable_in_place(int i) const;
  bool stored_in(const RowOutput& output, int phase) const;
  bool used_after_own_phase(int value) const;
  int cost_again(int value) const;
  bool meets_other_width(int value) const;
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
