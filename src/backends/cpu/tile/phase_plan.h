// Plans what each sweep over a row's columns computes, in which order, and where each column value is kept.
#pragma once

#include <array>
#include <vector>

#include "backends/cpu/tile/functions/functions.h"
#include "lowering/row_program.h"

namespace ridgepoint::cpu {

// Finds instructions that one tile function can compute in a single pass over the columns.

// How an instruction is computed. plain: as the row program has it. pair: by `pair`, with up to three operands.
// compare_index: by comparing the column's index times `stride` with a scalar. pick: a sum in which only the column
// whose index equals a scalar counts; that one element is read instead.
struct TileFusion {
  enum class Kind : std::uint8_t { plain, pair, compare_index, pick };
  Kind kind = Kind::plain;
  tile::Pair pair = tile::Pair::mul_add;
  // plain: the instruction's operands. pair: the operands in the order of `pair`. compare_index: the scalar. pick: a
  // load and the scalar.
  std::array<int, 3> operands{-1, -1, -1};
  std::int64_t stride = 1;  // of the index of compare_index
  bool absorbed = false;    // computed within its only user
};

// The largest value of an iota over the space.
std::int64_t largest_index(const RowSpace& space, const RowAccess& iota);

// Indexed by instruction. An instruction is absorbed only if its single user is a column value of the same phase.
std::vector<TileFusion> find_fusions(const RowProgram& program);

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
