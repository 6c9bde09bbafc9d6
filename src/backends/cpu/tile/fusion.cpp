#include "backends/cpu/tile/fusion.h"

#include <algorithm>

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
      default:
        return;
    }
  }

  // sum(where(index == scalar, x, 0)) with x in memory, whose comparison is already fused.
  void fuse_pick(int i) {
    const int chosen = at(i).operands[0];
    if (at(i).op != Op::reduce_sum || !can_absorb(chosen, i) || !is_elementwise(chosen, Op::where)) return;
    const auto [condition, value, otherwise] = at(chosen).operands;
    const bool zero = at(otherwise).kind == RowKind::constant && at(otherwise).value == 0.0;
    const bool memory = at(value).kind == RowKind::load && at(value).dtype == DType::fp32 && is_column(value);
    if (!zero || !memory || !can_absorb(condition, i) || !is_elementwise(condition, Op::equal)) return;
    if (fusion(condition).kind != TileFusion::Kind::compare_index || fusion(condition).stride != 1) return;
    fusion(condition).absorbed = true;
    absorb(chosen, i, TileFusion::Kind::pick, {value, fusion(condition).operands[0], -1});
  }

  const RowProgram& program_;
  std::vector<TileFusion> found_;
  std::vector<int> uses_;
};

}  // namespace

std::int64_t largest_index(const RowSpace& space, const RowAccess& iota) {
  std::int64_t largest = (space.columns - 1) * iota.column_stride;
  for (std::size_t d = 0; d < space.rows.size(); ++d) largest += (space.rows[d] - 1) * iota.row_strides[d];
  return largest;
}

std::vector<TileFusion> find_fusions(const RowProgram& program) { return Fuser(program).run(); }

}  // namespace ridgepoint::cpu
