// The columns of op_list.def. The autocast column is compared with groups listed here, the others with classes and
// rules.
#include <gtest/gtest.h>

#include <set>

#include "ops/rule.h"
#include "ridgepoint/ir/op.h"

namespace ridgepoint {
namespace {

std::set<Op> ops_with(AutocastRule rule) {
  std::set<Op> ops;
  for (const Op op : kAllOps) {
    if (traits(op).autocast == rule) ops.insert(op);
  }
  return ops;
}

std::string names(const std::set<Op>& ops) {
  std::string text;
  for (const Op op : ops) text += std::string(name(op)) + " ";
  return text;
}

std::set<Op> ops_of(OpClass op_class) {
  std::set<Op> ops;
  for (const Op op : kAllOps) {
    if (ridgepoint::op_class(op) == op_class) ops.insert(op);
  }
  return ops;
}

std::set<Op> with(std::set<Op> ops, const std::set<Op>& others) {
  ops.insert(others.begin(), others.end());
  return ops;
}

std::set<Op> without(std::set<Op> ops, const std::set<Op>& others) {
  std::erase_if(ops, [&](Op op) { return others.contains(op); });
  return ops;
}

const std::set<Op> kExponentials = {Op::exp, Op::expm1, Op::log, Op::rsqrt};
// Elementwise, without arithmetic.
const std::set<Op> kMoves = {Op::copy, Op::cast, Op::detach, Op::round_away, Op::join_halves, Op::iota};
const std::set<Op> kActivations = {Op::relu,          Op::silu,     Op::silu_backward,     Op::gelu,
                                   Op::gelu_backward, Op::soft_cap, Op::soft_cap_backward, Op::causal_mask};
const std::set<Op> kAttention = {Op::attention, Op::attention_backward};
const std::set<Op> kConvolution = {Op::causal_convolution};
const std::set<Op> kOfCodes = {Op::quantise, Op::quantise_rows, Op::transpose_codes, Op::widen_codes,
                               Op::scaled_matmul};  // made after autocast
const std::set<Op> kGrouped = {Op::grouped_matmul, Op::grouped_matmul_weights};

TEST(Autocast, rounds_the_operands_of_products) {
  EXPECT_EQ(names(ops_with(AutocastRule::low)),
            names(with(with(with(ops_of(OpClass::contraction), kGrouped), with(kAttention, kConvolution)),
                       ops_of(OpClass::recurrence))));
}

TEST(Autocast, computes_norms_softmax_losses_sums_exponentials_and_updates_in_fp32) {
  const std::set<Op> whole = without(
      ops_of(OpClass::composite), with(with(kActivations, kAttention), with(with(kOfCodes, kConvolution), {Op::rope})));
  EXPECT_EQ(names(ops_with(AutocastRule::full)), names(with(with(whole, kExponentials), {Op::reduce_sum})));
}

TEST(Autocast, lets_elementwise_ops_and_activations_follow_their_widest_operand) {
  const std::set<Op> elementwise = without(ops_of(OpClass::elementwise), with(kExponentials, kMoves));
  EXPECT_EQ(names(ops_with(AutocastRule::widest)), names(with(with(elementwise, kActivations), {Op::reduce_max})));
}

TEST(Autocast, does_not_cast_operands_of_ops_without_arithmetic_or_with_their_own_rule) {
  std::set<Op> own = with(ops_of(OpClass::state), ops_of(OpClass::view));
  own = with(with(own, ops_of(OpClass::gather)), kMoves);
  own = with(own, without(ops_of(OpClass::experts), kGrouped));
  own = with(with(own, with(ops_of(OpClass::collective), ops_of(OpClass::transfer))), kOfCodes);
  EXPECT_EQ(names(ops_with(AutocastRule::own)), names(with(own, {Op::concat, Op::rope, Op::fused})));
}

TEST(OpTraits, count_operations_as_the_class_has_them) {
  for (const Op op : kAllOps) {
    const Arithmetic counted = traits(op).arithmetic;
    const bool moves = kMoves.contains(op) || op == Op::causal_mask || op == Op::embedding;
    switch (op_class(op)) {
      case OpClass::elementwise:
        EXPECT_EQ(counted, moves ? Arithmetic::none : Arithmetic::each_result) << name(op);
        break;
      case OpClass::reduction: EXPECT_EQ(counted, Arithmetic::each_operand) << name(op); break;
      case OpClass::composite:
        if (op == Op::scaled_matmul) {
          EXPECT_EQ(counted, Arithmetic::formula) << "as matmul";
        } else {
          EXPECT_EQ(counted, moves ? Arithmetic::none : Arithmetic::decomposition) << name(op);
        }
        break;
      case OpClass::view:
      case OpClass::placement:
      case OpClass::state:
      case OpClass::transfer:
      case OpClass::collective: EXPECT_EQ(counted, Arithmetic::none) << name(op); break;
      case OpClass::fused: EXPECT_EQ(counted, Arithmetic::decomposition) << name(op); break;
      case OpClass::experts:
        EXPECT_EQ(counted, kGrouped.contains(op) ? Arithmetic::formula : Arithmetic::none) << name(op);
        break;
      default: EXPECT_EQ(counted, moves ? Arithmetic::none : Arithmetic::formula) << name(op);
    }
  }
}

TEST(OpTraits, agree_with_the_rules) {
  for (const Op op : kAllOps) {
    const OpRule& op_rule = rule(op);
    EXPECT_EQ(op_rule.flops != nullptr, traits(op).arithmetic == Arithmetic::formula) << name(op);
    const bool decomposes = op_class(op) == OpClass::composite || op_class(op) == OpClass::fused;
    EXPECT_EQ(op_rule.decompose != nullptr, decomposes) << name(op);
    EXPECT_EQ(op_rule.infer != nullptr, op != Op::input) << name(op);
  }
}

TEST(OpTraits, classes_of_kernels_come_in_pairs_of_an_op_and_its_derivative) {
  for (const Op op : kAllOps) {
    EXPECT_NE(traits(op).kernel_class, KernelClass::unknown) << name(op);
    const std::optional<Op> backward = op_from_name(std::string(name(op)) + "_backward");
    if (!backward) continue;
    EXPECT_EQ(traits(*backward).kernel_class, traits(op).kernel_class) << name(op);
    EXPECT_EQ(traits(*backward).autocast, traits(op).autocast) << name(op);
  }
}

TEST(OpTraits, launch_unless_they_enter_the_graph_or_are_views) {
  EXPECT_FALSE(launches(Op::input));
  EXPECT_FALSE(launches(Op::transpose));
  EXPECT_TRUE(launches(Op::copy));
  EXPECT_TRUE(launches(Op::iota));
  EXPECT_TRUE(launches(Op::adamw));
}

}  // namespace
}  // namespace ridgepoint
