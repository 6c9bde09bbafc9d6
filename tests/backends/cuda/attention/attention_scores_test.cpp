// Flash attention on the GPU with a window or a soft cap of the scores.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/attention/attention_case.h"

namespace ridgepoint {
namespace {

using testing::AttentionCase;
using testing::NodeRun;
using testing::OnCardAttention;
using testing::Operand;
using testing::with_soft_cap;
using testing::with_window;

// Windows at the edges of the kernels' blocks, of which the last queries of a sequence see none of the first.
TEST_F(OnCardAttention, a_window_hides_what_lies_before_it) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 96, 128, 256}) {
      if (dtype == DType::fp32 && width > 128) continue;
      for (const std::int64_t window : {1, 17, 64, 65, 128, 129, 200, 398, 5000}) {
        expect_agrees(with_window(dtype, 2, 399, width, window));
      }
    }
  }
}

TEST_F(OnCardAttention, a_window_may_have_any_length_and_head_size) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const std::int64_t length : {3, 113, 257, 385, 1023}) {
      for (const std::int64_t width : {64, 128}) expect_agrees(with_window(dtype, 2, length, width, 100));
    }
    for (const std::int64_t width : {8, 72, 80, 104, 200}) expect_agrees(with_window(dtype, 3, 300, width, 77));
  }
}

TEST_F(OnCardAttention, heads_that_share_keys_may_have_a_window) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t group : {2, 6}) {
      AttentionCase c = with_window(dtype, 6, 500, 128, 130);
      c.group = group;
      expect_agrees(c);
    }
  }
}

// Blocks of keys add to a gradient of q in their order, counted from the first that the window leaves.
TEST_F(OnCardAttention, a_window_leaves_an_order_of_more_blocks_than_run_at_a_time) {
  for (const std::int64_t width : {64, 128}) expect_agrees(with_window(DType::bf16, 45, 400, width, 150));
  expect_agrees(with_window(DType::fp16, 45, 400, 256, 150));
}

TEST_F(OnCardAttention, a_key_that_is_not_a_number_reaches_its_window_alone) {
  constexpr std::int64_t kLength = 600, kKey = 210, kWindow = 150, kWidth = 64;
  for (const double cap : {0.0, 20.0}) {
    AttentionCase c = with_window(DType::bf16, 1, kLength, kWidth, kWindow);
    c.soft_cap = cap;
    std::vector<Operand> operands = forward_operands(c);
    store_element(c.dtype, operands[1].storage.data() + kKey * kWidth * 2, NAN);
    const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
    const std::vector<Operand> all = backward_operands(operands, results, c);
    const HostTensor dq = NodeRun(*device_, Op::attention_backward, all, c.attributes()).launch()[0];
    for (std::int64_t row = 0; row < kLength; ++row) {
      const bool sees = row >= kKey && row < kKey + kWindow;
      const auto at = static_cast<std::size_t>(row * kWidth * 2);
      EXPECT_EQ(std::isnan(load_element(c.dtype, results[0].data.data() + at)), sees) << "o of query " << row;
      EXPECT_EQ(std::isnan(load_element(c.dtype, dq.data.data() + at)), sees) << "dq of query " << row;
    }
  }
}

// Of scores that the cap bends and of those that it hardly changes.
TEST_F(OnCardAttention, a_soft_cap_bounds_the_scores) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 80, 96, 128, 256}) {
      if (dtype == DType::fp32 && width > 128) continue;
      for (const double cap : {2.0, 50.0}) {
        expect_agrees(with_soft_cap({dtype, 2, 300, 300, width, true}, cap));
        expect_agrees(with_soft_cap({dtype, 2, 399, 399, width, true}, cap));
        expect_agrees(with_soft_cap({dtype, 2, 300, 411, width, false}, cap));
        expect_agrees(with_soft_cap({dtype, 2, 500, 300, width, false}, cap));
      }
    }
  }
}

TEST_F(OnCardAttention, a_soft_cap_goes_with_a_window_and_shared_keys) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 96, 128, 256}) {
      if (dtype == DType::fp32 && width > 128) continue;
      for (const std::int64_t window : {1, 90, 128, 400}) {
        AttentionCase c = with_soft_cap(with_window(dtype, 2, 500, width, window), 5);
        c.group = 2;
        expect_agrees(c);
      }
    }
  }
}

// Scores far beyond the cap: all weights of a row are alike, or nearly one or zero.
TEST_F(OnCardAttention, a_soft_cap_holds_of_large_scores) {
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    for (const double cap : {1.0, 50.0}) {
      const AttentionCase c = with_soft_cap({dtype, 1, 300, 300, 64, true}, cap);
      std::vector<Operand> operands = forward_operands(c);
      for (std::size_t i = 0; i < operands[0].storage.size(); i += size_bytes(dtype)) {
        std::byte* element = operands[0].storage.data() + i;
        store_element(dtype, element, 1000 * load_element(dtype, element));
      }
      expect_as_good_as_plain_ops(Op::attention, operands, c);
    }
  }
}

TEST_F(OnCardAttention, a_window_or_a_soft_cap_runs_the_kernels_of_the_card) {
  const bool is_hopper = cuda::CudaContext::of_card(0).card().capability.number() == 90;
  for (const double cap : {0.0, 30.0}) {
    AttentionCase c = with_window(DType::bf16, 1, 300, 128, 100);
    c.soft_cap = cap;
    const std::vector<Operand> operands = forward_operands(c);
    NodeRun forward(*device_, Op::attention, operands, c.attributes());
    const std::vector<Operand> all = backward_operands(operands, forward.launch(), c);
    NodeRun backward(*device_, Op::attention_backward, all, c.attributes());
    const std::string scores = cap > 0 ? "soft_cap" : "window";
    const std::string form = is_hopper ? "hopper_" + scores : "tiled";
    EXPECT_EQ(forward.kernel().name(), "attention_forward_" + form + "_bf16_128");
    EXPECT_EQ(backward.kernel().name(), "attention_backward_" + form + "_bf16_128");
  }
}

}  // namespace
}  // namespace ridgepoint
