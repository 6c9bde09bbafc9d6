// Flash attention on the GPU, at lengths and head sizes that no tile divides, of any scale and of elements that are not
// numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "backends/cuda/attention/attention_case.h"

namespace ridgepoint {
namespace {

using testing::AttentionCase;
using testing::largest_difference;
using testing::NodeRun;
using testing::OnCardAttention;
using testing::Operand;
using testing::with_soft_cap;
using testing::with_window;

TEST_F(OnCardAttention, is_as_good_as_plain_ops_at_odd_lengths) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t length : {1, 3, 64, 113, 239, 257, 799}) {
      for (const bool causal : {false, true}) {
        for (const std::int64_t width : {64, 128}) expect_agrees({dtype, 2, length, length, width, causal});
      }
    }
  }
}

// Each kernel for about this head size at lengths that its tiles do not divide; also on the emulated card (card.h).
struct OnCardTilings : OnCardAttention, ::testing::WithParamInterface<std::tuple<DType, std::int64_t>> {
  static AttentionCase of_length(std::int64_t length, bool causal) {
    const auto [dtype, width] = GetParam();
    return {dtype, 1, length, length, width, causal};
  }
  void expect_nearest_agree(const AttentionCase& c) { expect_all_agree(c, c.width + c.width / 4); }
};

TEST_P(OnCardTilings, are_as_good_as_plain_ops) {
  for (const std::int64_t length : {1, 3, 113}) expect_nearest_agree(of_length(length, false));
  expect_nearest_agree(of_length(239, true));
}

TEST_P(OnCardTilings, take_a_window_a_soft_cap_and_shared_keys) {
  AttentionCase c = of_length(150, true);
  c.window = 70;
  expect_nearest_agree(with_soft_cap(c, 2));
  c = of_length(70, true);
  c.batch = c.group = 2;
  expect_nearest_agree(c);
}

TEST_P(OnCardTilings, take_unequal_lengths) {
  AttentionCase c = of_length(40, false);
  c.keys = 300;
  expect_nearest_agree(c);
}

INSTANTIATE_TEST_SUITE_P(all, OnCardTilings,
                         ::testing::Combine(::testing::Values(DType::bf16, DType::fp16),
                                            ::testing::Values(64, 80, 96, 128, 256)),
                         [](const auto& test) {
                           return std::string(name(std::get<0>(test.param))) + '_' +
                                  std::to_string(std::get<1>(test.param));
                         });

// Each kernel, whatever problems it is for.
TEST_F(OnCardAttention, every_kernel_is_as_good_as_plain_ops) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t width : {64, 128, 256}) {
      for (const std::int64_t length : {1, 3, 113, 239}) {
        expect_all_agree({DType::bf16, 2, length, length, width, causal});
      }
      expect_all_agree({DType::fp16, 1, 799, 799, width, causal});
    }
    expect_all_agree({DType::bf16, 1, 1023, 1023, 80, causal});
  }
  for (const std::int64_t width : {40, 96, 200}) expect_all_agree({DType::bf16, 1, 130, 411, width, false});
}

TEST_F(OnCardAttention, every_kernel_reads_shared_keys) {
  for (const std::int64_t width : {64, 96, 128, 256}) {
    expect_all_agree(
        {.dtype = DType::bf16, .batch = 6, .queries = 300, .keys = 300, .width = width, .causal = true, .group = 3});
  }
}

// More tiles than multiprocessors, so that thread blocks share tiles of several heads.
TEST_F(OnCardAttention, every_kernel_takes_more_heads_than_multiprocessors) {
  for (const std::int64_t width : {64, 128, 256}) {
    expect_all_agree({DType::bf16, 140, 70, 70, width, false});
    expect_all_agree({DType::bf16, 45, 200, 200, width, true});
  }
  expect_all_agree({DType::bf16, 140, 140, 140, 64, true});  // the last heads' tiles are taken longest first
}

TEST_F(OnCardAttention, every_kernel_may_add_gradients_of_shared_keys) {
  for (const std::int64_t width : {64, 96, 128, 256}) {
    AttentionCase c{
        .dtype = DType::bf16, .batch = 6, .queries = 300, .keys = 300, .width = width, .causal = true, .group = 3};
    c.sums_key_gradients = true;
    if (!runs_on_card(c)) GTEST_SKIP() << "only kernels for compute capability 9.0 add them";
    expect_all_agree(c);
    c.causal = false;
    expect_all_agree(c);
  }
}

// Parts of three heads, and of four and three, for each head size.
class OnCardParts : public OnCardAttention,
                    public ::testing::WithParamInterface<std::tuple<std::int64_t, std::int64_t>> {};

TEST_P(OnCardParts, of_several_heads_that_share_keys_add_up) {
  const auto [group, width] = GetParam();
  AttentionCase c{.dtype = DType::bf16,
                  .batch = 32 * group,
                  .queries = 300,
                  .keys = 300,
                  .width = width,
                  .causal = true,
                  .group = group};
  c.sums_key_gradients = true;
  if (!runs_on_card(c)) GTEST_SKIP() << "only kernels for compute capability 9.0 add them";
  expect_agrees(c);
}

INSTANTIATE_TEST_SUITE_P(all, OnCardParts, ::testing::Combine(::testing::Values(6, 7), ::testing::Values(64, 128, 256)),
                         [](const auto& test) {
                           return std::to_string(std::get<0>(test.param)) + "_heads_of_" +
                                  std::to_string(std::get<1>(test.param));
                         });

TEST_F(OnCardAttention, is_as_good_as_plain_ops_at_every_head_size) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {8, 16, 32, 72, 80, 96, 136, 200, 256}) {
      expect_agrees({dtype, 3, 150, 150, width, true});
      expect_agrees({dtype, 3, 300, 300, width, true});
      expect_agrees({dtype, 1, 70, 301, width, false});
    }
  }
  for (const std::int64_t width : {4, 16, 32, 80, 84, 128}) {
    expect_agrees({DType::fp32, 3, 150, 150, width, true});
    expect_agrees({DType::fp32, 1, 70, 150, width, false});
  }
}

TEST_F(OnCardAttention, heads_may_share_keys_and_values) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 128}) {
      for (const std::int64_t group : {2, 3, 6}) {
        expect_agrees(
            {.dtype = dtype, .batch = 6, .queries = 300, .keys = 300, .width = width, .causal = true, .group = group});
        expect_agrees({.dtype = dtype, .batch = 6, .queries = 90, .keys = 411, .width = width, .group = group});
      }
    }
  }
}

TEST_F(OnCardAttention, gradients_of_shared_keys_may_be_added) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {64, 96, 128, 256}) {
      AttentionCase c{
          .dtype = dtype, .batch = 6, .queries = 300, .keys = 300, .width = width, .causal = true, .group = 3};
      c.sums_key_gradients = true;
      if (!runs_on_card(c)) GTEST_SKIP() << "only kernels for compute capability 9.0 add them";
      expect_agrees(c);
      c.causal = false;
      c.keys = 211;
      for (const std::int64_t group : {1, 2, 6}) {
        c.group = group;
        expect_agrees(c);
      }
      AttentionCase window = with_window(dtype, 6, 300, width, 130);
      window.group = 2;
      window.sums_key_gradients = true;
      expect_agrees(window);
      expect_agrees(with_soft_cap(window, 2));
    }
  }
}

TEST_F(OnCardAttention, gradients_of_more_shared_keys_than_run_at_a_time_may_be_added) {
  AttentionCase c{.batch = 96, .queries = 300, .keys = 300, .width = 64, .causal = true, .group = 2};
  c.sums_key_gradients = true;
  if (!runs_on_card(c)) GTEST_SKIP() << "only kernels for compute capability 9.0 add them";
  expect_agrees(c);
}

TEST_F(OnCardAttention, takes_unequal_lengths) {
  for (const std::int64_t keys : {1, 130, 1023}) {
    expect_agrees({DType::bf16, 2, 200, keys, 64, false});
    expect_agrees({DType::bf16, 2, 1, keys, 128, false});
    expect_agrees({DType::fp32, 2, 200, keys, 64, false});
    expect_agrees({DType::fp32, 2, 1, keys, 128, false});
  }
}

// Many more blocks of keys than run on the GPU at the same time; those that add to one gradient of q wait for one
// another.
TEST_F(OnCardAttention, sums_the_gradient_of_q_over_more_blocks_than_run_at_a_time) {
  expect_agrees({DType::bf16, 1, 256, 40000, 64, false});
  expect_agrees({DType::bf16, 1, 128, 10000, 256, false});
  for (const std::int64_t width : {64, 128}) expect_agrees({DType::fp32, 1, 256, 20000, width, false});
}

// Hopper's forward has as many blocks as multiprocessors, which take tiles from a counter until none is left.
TEST_F(OnCardAttention, takes_more_blocks_of_queries_than_run_at_a_time) {
  expect_agrees({DType::bf16, 70, 300, 300, 64, true});
  expect_agrees({DType::bf16, 50, 270, 270, 128, false});
  expect_agrees({DType::fp16, 50, 270, 270, 256, true});
}

// Hopper's backward has warps that add and warps that let the next block add; neither may run ahead of the other.
TEST_F(OnCardAttention, takes_many_blocks_of_queries_for_one_block_of_keys) {
  for (const std::int64_t width : {64, 128, 256}) {
    expect_agrees({DType::bf16, 1, 12000, 200, width, false});
    expect_agrees({DType::fp32, 1, 12000, 200, width, false});
  }
}

TEST_F(OnCardAttention, large_scores_neither_overflow_nor_vanish) {
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    const AttentionCase c{dtype, 1, 300, 300, 64, true};
    std::vector<Operand> operands = forward_operands(c);
    for (std::size_t i = 0; i < operands[0].storage.size(); i += size_bytes(dtype)) {
      std::byte* element = operands[0].storage.data() + i;
      store_element(dtype, element, 200 * load_element(dtype, element));
    }
    expect_as_good_as_plain_ops(Op::attention, operands, c);
  }
}

// All scores of a row are equal and large, so that their products with the scale are rounded. Weights must add up to 1.
TEST_F(OnCardAttention, large_scores_of_many_keys_keep_the_sum_of_a_row) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {64, 128, 256}) {
      constexpr std::int64_t kRows = 64;
      AttentionCase c{dtype, 396, kRows, 16384, width, false, 64.0 / static_cast<double>(width)};
      c.group = c.batch;
      std::vector<Operand> operands = forward_operands(c);
      const auto set = [&](std::size_t operand, const auto& value) {
        std::vector<std::byte>& storage = operands[operand].storage;
        for (std::size_t i = 0; i < storage.size() / size_bytes(dtype); ++i) {
          store_element(dtype, storage.data() + i * size_bytes(dtype), value(i));
        }
      };
      set(0, [&](std::size_t i) { return 4 + static_cast<double>(i / static_cast<std::size_t>(width) % kRows) / 32; });
      set(1, [](std::size_t) { return 8.0; });
      set(2, [](std::size_t) { return 1.0; });
      const HostTensor o = NodeRun(*device_, Op::attention, operands, c.attributes()).launch()[0];
      HostTensor ones(o.type);
      for (std::int64_t i = 0; i < o.type.elements(); ++i) {
        store_element(dtype, ones.data.data() + static_cast<std::size_t>(i) * size_bytes(dtype), 1.0);
      }
      EXPECT_LE(largest_difference(o, ones), 2e-3) << c.text();
    }
  }
}

TEST_F(OnCardAttention, one_element_that_is_not_a_number_spoils_the_rows_that_see_it) {
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    const AttentionCase c{dtype, 1, 100, 100, 64, true};
    std::vector<Operand> operands = forward_operands(c);
    store_element(dtype, operands[1].storage.data() + 40 * 64 * size_bytes(dtype), NAN);
    const HostTensor o = NodeRun(*device_, Op::attention, operands, c.attributes()).launch()[0];
    for (std::size_t row = 0; row < 100; ++row) {
      EXPECT_EQ(std::isnan(load_element(dtype, o.data.data() + row * 64 * size_bytes(dtype))), row >= 40)
          << name(dtype) << " row " << row;
    }
  }
}

// As a graph: without a forward kernel for the scale, the op is decomposed.
TEST_F(OnCardAttention, is_as_good_as_plain_ops_at_every_scale) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const double scale : {-0.2, 0.0, 3.0}) {
      for (const bool causal : {false, true}) {
        const AttentionCase c{dtype, 2, 239, 239, 64, causal, scale};
        const std::vector<Operand> operands = forward_operands(c);
        const std::vector<HostTensor> results = in_program(Op::attention, operands, c.attributes());
        expect_as_good_as_plain_ops(results, Op::attention, operands, c);
        expect_as_good_as_plain_ops(Op::attention_backward, backward_operands(operands, results, c), c);
      }
    }
  }
}

TEST_F(OnCardAttention, a_scale_that_is_not_finite_makes_nan) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const double scale : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      const AttentionCase c{dtype, 1, 70, 70, 64, true, scale};
      const HostTensor o = in_program(Op::attention, forward_operands(c), c.attributes())[0];
      const std::byte* last = o.data.data() + (70 * 64 - 1) * size_bytes(dtype);
      EXPECT_TRUE(std::isnan(load_element(dtype, last))) << c.text();
    }
  }
}

// The decomposition gives dq of every query NaN, because 0 times NaN is NaN.
TEST_F(OnCardAttention, a_hidden_key_that_is_nan_reaches_nothing) {
  constexpr std::size_t kRows = 300;
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 96, 128, 256}) {
      if (dtype == DType::fp32 && width > 128) continue;
      for (const std::size_t key : {std::size_t{40}, std::size_t{150}}) {
        const AttentionCase c{dtype, 2, kRows, kRows, width, true};
        std::vector<Operand> operands = forward_operands(c);
        const auto columns = static_cast<std::size_t>(width);
        store_element(dtype, operands[1].storage.data() + (key * columns + columns - 1) * size_bytes(dtype), NAN);
        const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
        const std::vector<Operand> all = backward_operands(operands, results, c);
        const HostTensor dq = NodeRun(*device_, Op::attention_backward, all, c.attributes()).launch()[0];
        for (const HostTensor* tensor : {&results[0], &dq}) {
          for (std::size_t row = 0; row < 2 * kRows; ++row) {
            const double x = load_element(dtype, tensor->data.data() + row * columns * size_bytes(dtype));
            EXPECT_EQ(std::isnan(x), row >= key && row < kRows)
                << c.text() << (tensor == &dq ? " dq" : " o") << " row " << row << " with key " << key;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
