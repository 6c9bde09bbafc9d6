#include "backends/cpu/tile/phase_plan.h"

#include <algorithm>
#include <limits>

namespace ridgepoint::cpu {
namespace {

bool is_comparison(Op op) { return op == Op::equal || op == Op::less || op == Op::less_equal; }

class Fuser {
 public:
  explicit Fuser(const RowProgram& program)
      : program_(program), found_(program.instructions.size()), uses_(found_.size()) {
    for (std::size_t i = 0; i < found_.size(); ++i) {
      found_[i].operands = program.instructions[i].operands;
      for (const int operand : found_[i].operands) {
        if (operand >= 0) ++uses_[static_cast<std::size_t>(operand)];
      }
    }
    for (const RowOutput& output : program.outputs)
      uses_[static_cast<std::size_t>(output.value)] += 2;  // never absorbed
  }

  std::vector<TileFusion> run() {
    for (int i = 0; i < static_cast<int>(found_.size()); ++i) {
      if (at(i).kind == RowKind::reduce) {
        fuse_pick(i);
      } else if (at(i).kind == RowKind::elementwise && at(i).level == RowLevel::column) {
        if (!fuse_comparison(i)) fuse_pair(i);
      }
    }
    return std::move(found_);
  }

 private:
  const RowInstruction& at(int i) const { return program_.instructions[static_cast<std::size_t>(i)]; }
  TileFusion& fusion(int i) { return found_[static_cast<std::size_t>(i)]; }
  bool is_column(int i) const { return at(i).level == RowLevel::column; }
  bool is_elementwise(int i, Op op) const { return at(i).kind == RowKind::elementwise && at(i).op == op; }

  // An operand that can be computed within `user`: a column value of the same phase with no other user.
  bool can_absorb(int operand, int user) {
    return operand >= 0 && is_column(operand) && at(operand).phase == at(user).phase &&
           uses_[static_cast<std::size_t>(operand)] == 1;
  }

  void absorb(int operand, int user, TileFusion::Kind kind, std::array<int, 3> operands) {
    fusion(operand).absorbed = true;
    fusion(user).kind = kind;
    fusion(user).operands = operands;
  }

  bool fuse_comparison(int i) {
    const auto [index, scalar, unused] = at(i).operands;
    if (!is_comparison(at(i).op) || !can_absorb(index, i) || at(index).kind != RowKind::iota || is_column(scalar))
      return false;
    if (largest_index(program_.space, at(index).access) >= tile::kFirstInexactIndex) return false;
    absorb(index, i, TileFusion::Kind::compare_index, {scalar, -1, -1});
    fusion(i).stride = at(index).access.column_stride;
    return true;
  }

  void pair_with(int product, int user, tile::Pair pair, int third) {
    absorb(product, user, TileFusion::Kind::pair, {at(product).operands[0], at(product).operands[1], third});
    fusion(user).pair = pair;
  }

  bool plain_operation(int operand, int user, Op op) {
    return can_absorb(operand, user) && is_elementwise(operand, op) && fusion(operand).kind == TileFusion::Kind::plain;
  }

  void fuse_pair(int i) {
    const auto [a, b, unused] = at(i).operands;
    switch (at(i).op) {
      case Op::exp:
        if (plain_operation(a, i, Op::sub)) pair_with(a, i, tile::Pair::exp_sub, -1);
        return;
      case Op::add:
      case Op::mul: {
        const tile::Pair pair = at(i).op == Op::add ? tile::Pair::mul_add : tile::Pair::mul_mul;
        if (plain_operation(a, i, Op::mul)) return pair_with(a, i, pair, b);
        if (plain_operation(b, i, Op::mul)) pair_with(b, i, pair, a);
        return;
      }
      case Op::sub:
        if (plain_operation(b, i, Op::mul)) return pair_with(b, i, tile::Pair::sub_mul, a);
        if (plain_operation(a, i, Op::mul)) pair_with(a, i, tile::Pair::mul_sub, b);
        return;
      default: return;
    }
  }

  // sum(where(column == scalar, x, 0)) with x in memory, whose comparison is already fused.
  void fuse_pick(int i) {
    const int chosen = at(i).operands[0];
    if (at(i).op != Op::reduce_sum || !can_absorb(chosen, i) || !is_elementwise(chosen, Op::where)) return;
    const auto [condition, value, otherwise] = at(chosen).operands;
    const bool zero = at(otherwise).kind == RowKind::constant && at(otherwise).value == 0.0;
    const bool memory = at(value).kind == RowKind::load && at(value).dtype == DType::fp32 && is_column(value);
    if (!zero || !memory || !can_absorb(condition, i) || !is_elementwise(condition, Op::equal)) return;
    if (fusion(condition).kind != TileFusion::Kind::compare_index || fusion(condition).stride != 1) return;
    const auto& rows = at(at(condition).operands[0]).access.row_strides;
    if (std::ranges::any_of(rows, [](std::int64_t stride) { return stride != 0; })) return;
    fusion(condition).absorbed = true;
    absorb(chosen, i, TileFusion::Kind::pick, {value, fusion(condition).operands[0], -1});
  }

  const RowProgram& program_;
  std::vector<TileFusion> found_;
  std::vector<int> uses_;
};

constexpr int kNever = -1;
constexpr int kAtEnd = std::numeric_limits<int>::max();
// Costs in cheap operations: a value that costs more than kCheapRecompute is kept in a row buffer, not computed again.
constexpr int kCheapRecompute = 2;
constexpr int kExpensive = 8;

// Whether a tile function can read and write this memory without conversion.
bool needs_no_conversion(const RowAccess& access) {
  return (access.dtype == DType::fp32 || access.dtype == DType::int64) && access.column_stride == 1;
}

}  // namespace

std::int64_t largest_index(const RowSpace& space, const RowAccess& iota) {
  std::int64_t largest = (space.columns - 1) * iota.column_stride;
  for (std::size_t d = 0; d < space.rows.size(); ++d) largest += (space.rows[d] - 1) * iota.row_strides[d];
  return largest;
}

std::vector<TileFusion> find_fusions(const RowProgram& program) { return Fuser(program).run(); }

PhasePlan::PhasePlan(const RowProgram& program)
    : program_(program),
      last_phase_(program.phases - 1),
      one_element_output_(std::count_if(program.outputs.begin(), program.outputs.end(),
                                        [](const RowOutput& output) { return output.store == RowStore::element; }) ==
                          1),
      fusions_(find_fusions(program)),
      buffer_(program.instructions.size(), -1) {
  int buffers = 0;
  for (int i = 0; i < static_cast<int>(buffer_.size()); ++i) {
    if (!is_column(i) || at(i).kind != RowKind::elementwise || fusion(i).absorbed || !used_after_own_phase(i)) continue;
    if (recompute_cost(i) > kCheapRecompute) buffer_[static_cast<std::size_t>(i)] = buffers++;
  }
}

bool PhasePlan::readable_in_place(int i) const {
  return at(i).kind == RowKind::load && needs_no_conversion(at(i).access);
}

bool PhasePlan::stored_in(const RowOutput& output, int phase) const {
  if (output.store == RowStore::element) return phase == last_phase_ && moved_load(output) < 0;
  return output.store == RowStore::accumulate_columns && at(output.value).phase == phase;
}

bool PhasePlan::used_after_own_phase(int value) const {
  const int phase = at(value).phase;
  for (int user = value + 1; user < static_cast<int>(fusions_.size()); ++user) {
    const auto& operands = fusion(user).operands;
    const bool uses = std::find(operands.begin(), operands.end(), value) != operands.end();
    if (uses && is_column(user) && at(user).phase > phase) return true;
  }
  return phase < last_phase_ &&
         std::any_of(program_.outputs.begin(), program_.outputs.end(), [&](const RowOutput& output) {
           return output.value == value && output.store == RowStore::element;
         });
}

int PhasePlan::recompute_cost(int value) const {
  if (!is_column(value) || readable_in_place(value) || buffer_[static_cast<std::size_t>(value)] >= 0) return 0;
  int cost = traits(at(value).op).effort == Effort::function ? kExpensive : 1;
  for (const int operand : fusion(value).operands) {
    if (operand >= 0 && cost <= kExpensive) cost += recompute_cost(operand);
  }
  return cost;
}

int PhasePlan::moved_load(const RowOutput& output) const {
  int value = output.value;
  if (at(value).kind == RowKind::elementwise && at(value).op == Op::copy) value = at(value).operands[0];
  const bool repeats =
      program_.outputs.size() == 1 && at(value).kind == RowKind::load && at(value).dtype == output.access.dtype;
  return repeats && output.store <= RowStore::row ? value : -1;
}

// Operands come before their users in the list, so one backward walk is enough.
std::vector<bool> PhasePlan::needed_in(int phase) const {
  std::vector<bool> needed(program_.instructions.size());
  const auto need = [&](int value) {
    if (is_column(value)) needed[static_cast<std::size_t>(value)] = true;
  };
  for (const RowOutput& output : program_.outputs) {
    if (stored_in(output, phase)) need(output.value);
  }
  for (int i = static_cast<int>(needed.size()) - 1; i >= 0; --i) {
    const auto index = static_cast<std::size_t>(i);
    const bool sweeps = at(i).kind == RowKind::reduce && fusion(i).kind == TileFusion::Kind::plain;
    if (sweeps && at(i).phase == phase) need(at(i).operands[0]);
    if (buffer_[index] >= 0 && at(i).phase == phase) needed[index] = true;
    const bool reloaded = buffer_[index] >= 0 && at(i).phase < phase;
    if (!needed[index] || reloaded) continue;
    for (const int operand : fusion(i).operands) {
      if (operand >= 0) need(operand);
    }
  }
  return needed;
}

std::vector<int> PhasePlan::last_uses(int phase, const std::vector<bool>& needed) const {
  std::vector<int> last_use(needed.size(), kNever);
  for (int i = 0; i < static_cast<int>(needed.size()); ++i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    last_use[static_cast<std::size_t>(i)] = i;  // reductions and accumulations read a value when it is computed
    if (buffer_[static_cast<std::size_t>(i)] >= 0 && at(i).phase < phase) continue;
    for (const int operand : fusion(i).operands) {
      if (operand >= 0) last_use[static_cast<std::size_t>(operand)] = i;
    }
  }
  return last_use;
}

// Whether storing the output at `position` could overwrite an operand that is read later.
bool PhasePlan::could_overwrite(const RowOutput& output, int position, const std::vector<int>& read_until) const {
  for (int i = 0; i < static_cast<int>(read_until.size()); ++i) {
    if (at(i).kind == RowKind::load && at(i).access == output.access &&
        read_until[static_cast<std::size_t>(i)] > position)
      return true;
  }
  return false;
}

// Computes a value directly in its output where possible; other outputs are stored at the end of the tile.
void PhasePlan::place_outputs(PhaseSchedule& schedule, const std::vector<int>& last_use) const {
  std::vector<int> read_until(last_use.size(), kNever);
  for (const ScheduledValue& value : schedule.values) {
    const auto index = static_cast<std::size_t>(value.instruction);
    if (at(value.instruction).kind != RowKind::load) continue;
    read_until[index] = value.place == ValuePlace::in_memory ? last_use[index] : value.instruction;
  }
  for (int o = 0; o < static_cast<int>(program_.outputs.size()); ++o) {
    const RowOutput& output = program_.outputs[static_cast<std::size_t>(o)];
    if (output.store != RowStore::element) continue;
    const auto value = std::find_if(schedule.values.begin(), schedule.values.end(),
                                    [&](const ScheduledValue& v) { return v.instruction == output.value; });
    const bool free = value != schedule.values.end() && value->place == ValuePlace::tile_register &&
                      at(output.value).kind == RowKind::elementwise;
    if (free && needs_no_conversion(output.access) && !could_overwrite(output, output.value, read_until)) {
      value->place = ValuePlace::output;
      value->number = o;
    } else {
      schedule.stores_at_end.push_back(o);
    }
  }
}

// Whether an operand has another element width: integers take 8 bytes, other values 4.
bool PhasePlan::has_operand_of_other_width(int value) const {
  const auto differs = [&](int operand) {
    return operand >= 0 && is_integer(at(operand).dtype) != is_integer(at(value).dtype);
  };
  return std::any_of(fusion(value).operands.begin(), fusion(value).operands.end(), differs);
}

void PhasePlan::assign_registers(PhaseSchedule& schedule, const std::vector<int>& last_use) const {
  std::vector<int> held_until;  // by register
  for (ScheduledValue& value : schedule.values) {
    if (value.place != ValuePlace::tile_register) continue;
    // A result may reuse the register of an operand after its last use, if both have the same element width.
    const int free_from = value.instruction + (has_operand_of_other_width(value.instruction) ? 0 : 1);
    auto found = std::find_if(held_until.begin(), held_until.end(), [&](int until) { return until < free_from; });
    if (found == held_until.end()) found = held_until.insert(held_until.end(), 0);
    *found = std::max(last_use[static_cast<std::size_t>(value.instruction)], value.instruction + 1);
    value.number = static_cast<int>(found - held_until.begin());
  }
  schedule.registers = static_cast<int>(held_until.size());
}

PhaseSchedule PhasePlan::schedule(int phase) const {
  const std::vector<bool> needed = needed_in(phase);
  std::vector<int> last_use = last_uses(phase, needed);
  PhaseSchedule schedule;
  for (const RowOutput& output : program_.outputs) {
    if (output.store == RowStore::element && stored_in(output, phase))
      last_use[static_cast<std::size_t>(output.value)] = kAtEnd;
  }
  for (int i = 0; i < static_cast<int>(needed.size()); ++i) {
    const auto index = static_cast<std::size_t>(i);
    if (!needed[index]) continue;
    ScheduledValue value{.instruction = i, .place = ValuePlace::tile_register};
    // With several outputs, one could overwrite an operand that another one copies; such an operand is loaded early.
    const bool repeated = last_use[index] == kAtEnd && !one_element_output_;
    if (readable_in_place(i) && !repeated) value.place = ValuePlace::in_memory;
    if (buffer_[index] >= 0) {
      value.place = at(i).phase == phase ? ValuePlace::row_buffer : ValuePlace::reloaded;
      value.number = buffer_[index];
    }
    schedule.values.push_back(value);
  }
  if (phase == last_phase_) place_outputs(schedule, last_use);
  assign_registers(schedule, last_use);
  return schedule;
}

}  // namespace ridgepoint::cpu
