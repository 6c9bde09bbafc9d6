// Flash attention on the GPU of fp32 operands that are tiny, huge, zero or not finite.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
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

// fp32 operands with elements far from 1 or from one another; errors are relative to the largest element of a result.
struct OnCardFp32Attention : OnCardAttention {
  static AttentionCase standard(bool causal) { return {DType::fp32, 1, 150, 150, 64, causal}; }

  // The elements `first`, `first + step`, ... of an operand: `count` of them, or all that remain.
  static void scale(Operand& operand, double factor, std::size_t first = 0, std::size_t count = SIZE_MAX,
                    std::size_t step = 1) {
    for (std::size_t i = first; i < operand.storage.size() / sizeof(float) && count > 0; i += step, --count) {
      std::byte* element = operand.storage.data() + i * sizeof(float);
      store_element(DType::fp32, element, factor * load_element(DType::fp32, element));
    }
  }
  static void set(Operand& operand, std::size_t row, double value) {
    store_element(DType::fp32, operand.storage.data() + row * 64 * sizeof(float), value);
  }
  static double at(const HostTensor& tensor, std::size_t row, std::size_t column = 0) {
    const DType dtype = tensor.type.dtype;
    return load_element(dtype, tensor.data.data() + (row * 64 + column) * size_bytes(dtype));
  }

  static std::size_t key_of_largest_score(const std::vector<Operand>& operands, std::size_t query) {
    const HostTensor q = testing::dense(operands[0], operands[0].type());
    const HostTensor k = testing::dense(operands[1], operands[1].type());
    std::size_t key = 0;
    double largest = -INFINITY;
    for (std::size_t row = 0; row < 150; ++row) {
      double score = 0;
      for (std::size_t column = 0; column < 64; ++column) score += at(q, query, column) * at(k, row, column);
      if (score > largest) key = row;
      largest = std::max(largest, score);
    }
    return key;
  }

  std::vector<HostTensor> run(Op op, const std::vector<Operand>& operands, const AttentionCase& c) {
    return NodeRun(*device_, op, operands, c.attributes()).launch();
  }
  // With this gradient of the output.
  std::vector<Operand> backward_operands(const Operand& d_o, const std::vector<Operand>& operands,
                                         const AttentionCase& c) {
    std::vector<Operand> all = OnCardAttention::backward_operands(operands, run(Op::attention, operands, c), c);
    all[0] = d_o;
    return all;
  }

  void expect_as_good_as_plain_ops_relatively(Op op, const std::vector<Operand>& operands, const AttentionCase& c,
                                              const std::string& what) {
    const std::vector<HostTensor> found = run(op, operands, c);
    const std::vector<HostTensor> expected = testing::reference_outputs(op, operands, c.attributes());
    const std::vector<HostTensor> plain = in_plain_ops(op, operands, c.attributes());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double bound = 2 * largest_difference(plain[i], expected[i]) + 0x1p-18 * largest_of(expected[i]);
      EXPECT_LE(largest_difference(found[i], expected[i]), bound)
          << name(op) << " output " << i << " of " << what << (c.causal ? ", causal" : "");
    }
  }
  void expect_agrees_relatively(const std::vector<Operand>& operands, const Operand& d_o, const AttentionCase& c,
                                const std::string& what) {
    expect_as_good_as_plain_ops_relatively(Op::attention, operands, c, what);
    expect_as_good_as_plain_ops_relatively(Op::attention_backward, backward_operands(d_o, operands, c), c, what);
  }
};

TEST_F(OnCardFp32Attention, operands_may_be_tiny_or_huge) {
  const double factors[][4] = {{1e-30, 1e-30, 1e-30, 1e-30}, {1e-30, 1e30, 1, 1}, {1e32, 1e-32, 1, 1},
                               {1, 1, 1e15, 1e15},           {1, 1, 1e35, 1e-20}, {1, 1, 1, 1e-32}};
  for (const bool causal : {false, true}) {
    for (const auto& of : factors) {
      const AttentionCase c = standard(causal);
      std::vector<Operand> operands = forward_operands(c);
      Operand d_o = random(c.dtype, c.of_queries());
      for (std::size_t i = 0; i < 3; ++i) scale(operands[i], of[i]);
      scale(d_o, of[3]);
      expect_agrees_relatively(operands, d_o, c,
                               fmt::format("q {:g}, k {:g}, v {:g}, do {:g}", of[0], of[1], of[2], of[3]));
    }
  }
}

// Each query has weight 1 for one key. If backward's scores differed from forward's in the last bit, it would compute
// other weights than 0 and 1.
TEST_F(OnCardFp32Attention, scores_of_1e30_leave_weights_0_and_1) {
  const AttentionCase c = standard(false);
  std::vector<Operand> operands = forward_operands(c);
  scale(operands[0], 1e15);
  scale(operands[1], 1e15);
  const HostTensor o = run(Op::attention, operands, c)[0];
  const Operand d_o = random(c.dtype, c.of_queries());
  const HostTensor dv = run(Op::attention_backward, backward_operands(d_o, operands, c), c)[2];
  HostTensor expected({DType::fp64, c.of_keys()});
  for (std::size_t row = 0; row < 150; ++row) {
    const std::size_t key = key_of_largest_score(operands, row);
    for (std::size_t column = 0; column < 64; ++column) {
      const auto element = static_cast<std::int64_t>(key * 64 + column);
      EXPECT_NEAR(at(o, row, column), operands[2].at(testing::unravel(c.of_keys(), element)), 1e-5);
      const double gradient = d_o.at(testing::unravel(c.of_queries(), static_cast<std::int64_t>(row * 64 + column)));
      store_element(DType::fp64, expected.data.data() + static_cast<std::size_t>(element) * sizeof(double),
                    at(expected, key, column) + gradient);
    }
  }
  EXPECT_LE(largest_difference(dv, expected), 0x1p-18 * largest_of(expected));
}

TEST_F(OnCardFp32Attention, tiles_may_be_zero) {
  for (const bool causal : {false, true}) {
    const AttentionCase c = standard(causal);
    std::vector<Operand> operands = forward_operands(c);
    Operand d_o = random(c.dtype, c.of_queries());
    scale(operands[0], 0, std::size_t{32} * 64, std::size_t{32} * 64);
    scale(operands[1], 0, std::size_t{64} * 64, std::size_t{32} * 64);
    scale(operands[2], 0, std::size_t{96} * 64, std::size_t{32} * 64);
    scale(d_o, 0, 0, std::size_t{32} * 64);
    expect_agrees_relatively(operands, d_o, c, "tiles of zeros");
    for (Operand& operand : operands) scale(operand, 0);
    expect_agrees_relatively(operands, d_o, c, "nothing but zeros");
  }
}

TEST_F(OnCardFp32Attention, one_key_may_be_two_to_the_20_times_the_others) {
  for (const bool causal : {false, true}) {
    const AttentionCase c = standard(causal);
    std::vector<Operand> operands = forward_operands(c);
    scale(operands[1], 0x1p20, std::size_t{70} * 64, 64);
    expect_as_good_as_plain_ops_relatively(Op::attention, operands, c, "a large key");
    scale(operands[0], 0x1p-20);
    expect_agrees_relatively(operands, random(c.dtype, c.of_queries()), c, "a large key and small queries");
  }
}

TEST_F(OnCardFp32Attention, a_column_of_values_is_kept_to_two_to_the_minus_50_of_the_largest) {
  for (const bool causal : {false, true}) {
    for (const int exponent : {-20, -30}) {
      const AttentionCase c = standard(causal);
      std::vector<Operand> operands = forward_operands(c);
      scale(operands[2], std::ldexp(1, exponent), 5, SIZE_MAX, 64);
      const HostTensor found = run(Op::attention, operands, c)[0];
      const HostTensor expected = testing::reference_outputs(Op::attention, operands, c.attributes())[0];
      double error = 0, largest = 0;
      for (std::size_t row = 0; row < 150; ++row) {
        error = std::max(error, std::abs(at(found, row, 5) - at(expected, row, 5)));
        largest = std::max(largest, std::abs(at(expected, row, 5)));
      }
      const double largest_value = largest_of(testing::dense(operands[2], operands[2].type()));
      EXPECT_LE(error, 0x1p-20 * largest + 0x1p-50 * largest_value) << exponent;
    }
  }
}

TEST_F(OnCardFp32Attention, a_small_gradient_of_one_query_keeps_its_bits) {
  const AttentionCase c = standard(false);
  const std::vector<Operand> operands = forward_operands(c);
  Operand d_o = random(c.dtype, c.of_queries());
  scale(d_o, 0x1p-10, std::size_t{70} * 64, 64);
  const std::vector<Operand> all = backward_operands(d_o, operands, c);
  const HostTensor dq = run(Op::attention_backward, all, c)[0];
  const HostTensor expected = testing::reference_outputs(Op::attention_backward, all, c.attributes())[0];
  double error = 0, largest = 0;
  for (std::size_t column = 0; column < 64; ++column) {
    error = std::max(error, std::abs(at(dq, 70, column) - at(expected, 70, column)));
    largest = std::max(largest, std::abs(at(expected, 70, column)));
  }
  EXPECT_LE(error, 0x1p-18 * largest);
}

TEST_F(OnCardFp32Attention, is_not_finite_where_plain_ops_are_not_and_right_elsewhere) {
  const AttentionCase c = standard(false);
  for (const double what : {double{INFINITY}, double{-INFINITY}, double{NAN}}) {
    for (std::size_t which = 0; which < 4; ++which) {
      std::vector<Operand> operands = forward_operands(c);
      Operand d_o = random(c.dtype, c.of_queries());
      set(which < 3 ? operands[which] : d_o, 40, what);
      const std::vector<Operand> all = backward_operands(d_o, operands, c);
      for (const Op op : {Op::attention, Op::attention_backward}) {
        const std::vector<Operand>& given = op == Op::attention ? operands : all;
        const std::vector<HostTensor> found = run(op, given, c);
        const std::vector<HostTensor> plain = in_plain_ops(op, given, c.attributes());
        for (std::size_t i = 0; i < found.size(); ++i) {
          for (std::size_t element = 0; element < static_cast<std::size_t>(found[i].type.elements()); ++element) {
            const double ours = at(found[i], 0, element);
            const double theirs = at(plain[i], 0, element);
            ASSERT_TRUE(std::isfinite(theirs) || !std::isfinite(ours))
                << name(op) << " output " << i << " element " << element << ", " << what << " in operand " << which;
            if (std::isfinite(ours)) {
              ASSERT_NEAR(ours, theirs, 1e-4);
            }
          }
        }
      }
    }
  }
}

TEST_F(OnCardFp32Attention, what_a_query_does_not_see_leaves_it_as_it_was) {
  const AttentionCase c = standard(true);
  const std::vector<Operand> clean = forward_operands(c);
  const HostTensor expected = run(Op::attention, clean, c)[0];
  for (const double what : {double{INFINITY}, double{NAN}}) {
    std::vector<Operand> operands = clean;
    set(operands[1], 40, what);
    const HostTensor found = run(Op::attention, operands, c)[0];
    for (std::size_t row = 0; row < 150; ++row) {
      for (std::size_t column = 0; column < 64; ++column) {
        if (row < 40) {
          ASSERT_NEAR(at(found, row, column), at(expected, row, column), 1e-5) << row;
        } else {
          ASSERT_TRUE(std::isnan(at(found, row, column))) << row;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
