// Flash attention on the GPU of fp32 operands: wide heads, and how exact its sums in fp32 and tf32 are.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backends/cuda/attention/attention_case.h"

namespace ridgepoint {
namespace {

using testing::AttentionCase;
using testing::largest_difference;
using testing::largest_of;
using testing::NodeRun;
using testing::OnCardAttention;
using testing::Operand;

TEST_F(OnCardAttention, fp32_of_wide_heads_is_as_good_as_plain_ops) {
  AttentionCase c{.dtype = DType::fp32, .batch = 2, .width = 256};
  if (!runs_on_card(c)) GTEST_SKIP() << "only kernels for compute capability 9.0 take them";
  for (const std::int64_t width : {132, 160, 256}) {
    c.width = width;
    for (const std::int64_t length : {1, 3, 64, 113, 239, 799}) {
      for (const bool causal : {false, true}) {
        c.causal = causal;
        c.queries = c.keys = length;
        expect_agrees(c);
      }
    }
    expect_agrees({DType::fp32, 2, 70, 301, width, false});
    expect_agrees({.dtype = DType::fp32, .batch = 6, .queries = 90, .keys = 411, .width = width, .group = 3});
  }
}

TEST_F(OnCardAttention, fp32_is_as_exact_as_fp32_sums) {
  for (const std::int64_t width : {64, 128}) {
    for (const bool causal : {false, true}) {
      const AttentionCase c{DType::fp32, 2, 1023, 1023, width, causal};
      const std::vector<Operand> operands = forward_operands(c);
      const std::vector<HostTensor> found = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
      const std::vector<HostTensor> expected = testing::reference_outputs(Op::attention, operands, c.attributes());
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_LT(testing::relative_error(found[i], expected[i]), 1e-6) << c.text() << " output " << i;
      }
      const std::vector<Operand> all = backward_operands(operands, found, c);
      const std::vector<HostTensor> gradients = NodeRun(*device_, Op::attention_backward, all, c.attributes()).launch();
      const std::vector<HostTensor> right = testing::reference_outputs(Op::attention_backward, all, c.attributes());
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_LT(testing::relative_error(gradients[i], right[i]), 1e-6) << c.text() << " gradient " << i;
      }
    }
  }
}

// The error against operands that are not rounded. Plain ops round theirs to tf32, but the library may multiply small
// matrices in fp32; the kernel always rounds the operands of two products.
TEST_F(OnCardAttention, tf32_is_as_good_as_products_in_tf32) {
  for (const std::int64_t width : {20, 64, 128, 256}) {
    for (const std::int64_t length : {3, 129, 239, 799}) {
      for (const bool causal : {false, true}) {
        AttentionCase exact{DType::fp32, 2, length, length, width, causal};
        exact.group = 2;
        AttentionCase rounded = exact;
        rounded.tf32 = true;
        const std::vector<Operand> operands = forward_operands(exact);
        const std::vector<HostTensor> results = run_twice(Op::attention, operands, rounded);
        const std::vector<Operand> all = backward_operands(operands, results, exact);
        for (const Op op : {Op::attention, Op::attention_backward}) {
          const std::vector<Operand>& given = op == Op::attention ? operands : all;
          const std::vector<HostTensor> found = op == Op::attention ? results : run_twice(op, given, rounded);
          const std::vector<HostTensor> expected = testing::reference_outputs(op, given, exact.attributes());
          const std::vector<HostTensor> plain = in_plain_ops(op, given, rounded.attributes());
          for (std::size_t i = 0; i < found.size(); ++i) {
            const double bound =
                2 * largest_difference(plain[i], expected[i]) + 2 * 0x1p-11 * (0.3 + largest_of(expected[i]));
            EXPECT_LE(largest_difference(found[i], expected[i]), bound)
                << name(op) << " output " << i << " of " << rounded.text();
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
