// Which kernel of attention each card runs, and which problems the kernels take.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/attention/attention_case.h"
#include "backends/cuda/card.h"
#include "backends/cuda/described_cards.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/kernels/variant.h"
#include "ops/attention_form.h"

namespace ridgepoint {
namespace {

using testing::AttentionCase;

// Without a number of multiprocessors no attention is divided among more blocks than it has heads.
cuda::CardFacts hopper_card() {
  cuda::CardFacts card = testing::hopper_card();
  card.multiprocessors = 0;
  return card;
}
cuda::CardFacts ampere_card() {
  cuda::CardFacts card = hopper_card();
  card.capability = {8, 0};
  card.shared_bytes_per_block = std::size_t{163} * 1024;
  return card;
}

bool has_attention(const AttentionCase& c, Op op) {
  Graph graph;
  std::vector<Value> operands;
  for (const bool of_queries : {true, false, false}) {
    const Shape shape = of_queries ? c.of_queries() : c.of_keys();
    operands.push_back(input(graph, std::to_string(operands.size()), {c.dtype, shape}, Role::data));
  }
  const Node& forward = graph.node(make_node(graph, Op::attention, operands, c.attributes()));
  if (op == Op::attention) return cuda::has_hand_written(hopper_card(), graph, forward);
  const Value o = forward.outputs[0];
  const Value log_sum_exp = forward.outputs[1];
  operands.insert(operands.begin(), o);  // stands in for the gradient of o
  operands.insert(operands.end(), {o, log_sum_exp});
  return cuda::has_hand_written(hopper_card(), graph, graph.node(make_node(graph, op, operands, c.attributes(op))));
}

TEST(CudaAttention, adds_gradients_of_shared_keys_on_hopper_alone) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const std::int64_t width : {64, 128, 256}) {
      AttentionCase c{.dtype = dtype, .batch = 6, .queries = 300, .keys = 300, .width = width, .group = 3};
      c.sums_key_gradients = true;
      EXPECT_EQ(has_attention(c, Op::attention_backward), dtype != DType::fp32) << c.text();
    }
  }
}

TEST(CudaAttention, of_16_bit_operands_takes_scales_that_are_positive_and_finite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    for (const double scale : {0.125, 1e-30, 1e38}) {
      EXPECT_TRUE(has_attention({dtype, 1, 64, 64, 64, true, scale}, Op::attention)) << name(dtype) << ' ' << scale;
    }
    // In fp32 1e-60 is 0 and 1e39 is infinity.
    for (const double scale : {0.0, -0.125, 1e-60, 1e39, kInfinity, -kInfinity, std::nan("")}) {
      const AttentionCase c{dtype, 1, 64, 64, 64, true, scale};
      EXPECT_EQ(has_attention(c, Op::attention), dtype == DType::fp32) << c.text();
      EXPECT_TRUE(has_attention(c, Op::attention_backward)) << c.text();
    }
  }
}

// The entry of the kernel that such a GPU runs; empty if there is none. `pairs`: columns of rotary tables, 0 for none.
std::string kernel_of(DType dtype, std::int64_t width, const cuda::CardFacts& card, Op op = Op::attention,
                      std::int64_t length = 512, const AttentionForm& form = {}, bool tf32 = false,
                      std::int64_t heads = 2, std::int64_t pairs = 0) {
  Graph graph;
  const TensorType type{dtype, Shape{heads, length, width}};
  std::vector<Value> values;
  for (const char* name : {"q", "k", "v"}) values.push_back(input(graph, name, type, Role::data));
  Attributes attributes = attributes_of(form);
  if (tf32) attributes.set("compute", std::string("tf32"));
  if (op == Op::attention_backward) {
    values.insert(values.begin(), values[0]);
    values.push_back(values[0]);
    const DType wide = dtype == DType::fp64 ? DType::fp64 : DType::fp32;
    values.push_back(input(graph, "lse", {wide, Shape{heads, length}}, Role::data));
    if (pairs > 0) {
      for (const char* name : {"cos", "sin"}) {
        values.push_back(input(graph, name, {wide, Shape{length, pairs}}, Role::data));
      }
    }
  }
  const auto* variant = cuda::find_variant(card, graph, graph.node(make_node(graph, op, values, attributes)));
  return variant == nullptr ? "" : variant->entry;
}
bool has_kernel(DType dtype, std::int64_t width, const cuda::CardFacts& card, Op op = Op::attention) {
  return !kernel_of(dtype, width, card, op).empty();
}

TEST(CudaAttention, runs_the_narrowest_kernel_that_holds_the_head) {
  cuda::CardFacts blackwell = hopper_card();
  blackwell.capability = {10, 0};
  for (const cuda::CardFacts& card : {ampere_card(), hopper_card(), blackwell}) {
    const bool is_hopper = card.capability.major == 9;
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      for (const auto& [width, holds] :
           {std::pair{8, 64}, {64, 64}, {72, 96}, {96, 96}, {104, 128}, {128, 128}, {136, 256}, {256, 256}}) {
        const std::string kind = is_hopper ? "hopper" : "tiled";
        EXPECT_EQ(kernel_of(dtype, width, card, Op::attention, 3000),
                  fmt::format("attention_forward_{}_{}_{}", kind, name(dtype), holds));
        EXPECT_EQ(kernel_of(dtype, width, card, Op::attention_backward),
                  fmt::format("attention_backward_{}_{}_{}{}", kind, name(dtype), holds,
                              holds == 256 && card.capability.major == 8 ? "_compact" : ""));
      }
    }
    const char* form = is_hopper ? "hopper_fp32" : "split";
    for (const auto& [width, holds] : {std::pair{4, 64}, {64, 64}, {68, 128}, {128, 128}, {132, 256}, {256, 256}}) {
      const bool has = is_hopper || width <= 128;
      EXPECT_EQ(kernel_of(DType::fp32, width, card), has ? fmt::format("attention_forward_{}_{}", form, holds) : "");
    }
    EXPECT_EQ(kernel_of(DType::fp32, 64, card, Op::attention_backward), fmt::format("attention_backward_{}_64", form));
  }
  EXPECT_EQ(kernel_of(DType::fp32, 128, hopper_card(), Op::attention_backward), "attention_backward_hopper_fp32_128");
}

// Backward computes the scores of forward again, with the same bits, so both run the kernels of one kind.
TEST(CudaAttention, of_fp32_runs_kernels_of_one_kind_forward_and_backward) {
  const AttentionForm window{.causal = true, .window = 100};
  const AttentionForm cap{.causal = true, .soft_cap = 20};
  const auto kinds_of = [](std::int64_t width, std::int64_t length, const AttentionForm& form, bool tf32) {
    const std::string forward = kernel_of(DType::fp32, width, hopper_card(), Op::attention, length, form, tf32);
    const std::string backward =
        kernel_of(DType::fp32, width, hopper_card(), Op::attention_backward, length, form, tf32);
    const std::string prefixes[] = {"attention_forward_", "attention_backward_"};
    return std::pair(forward.substr(prefixes[0].size()), backward.substr(prefixes[1].size()));
  };
  for (const int width : {64, 128}) {
    const std::string portable = fmt::format("split_{}", width);
    for (const bool tf32 : {false, true}) {
      const std::string own = fmt::format("hopper_{}_{}", tf32 ? "tf32" : "fp32", width);
      EXPECT_EQ(kinds_of(width, 64, {}, tf32), std::pair(portable, portable));
      EXPECT_EQ(kinds_of(width, 65, {}, tf32), std::pair(own, own));
      EXPECT_EQ(kinds_of(width, 512, window, tf32), std::pair(portable, portable));
      EXPECT_EQ(kinds_of(width, 512, cap, tf32), std::pair(portable, portable));
      EXPECT_EQ(kinds_of(width, 512, {.causal = true, .window = 512}, tf32), std::pair(own, own));
    }
  }
}

TEST(CudaAttention, of_fp32_takes_wide_heads_on_hopper_without_a_window_or_a_soft_cap) {
  for (const std::int64_t length : {1, 512}) {
    EXPECT_EQ(kernel_of(DType::fp32, 200, hopper_card(), Op::attention, length), "attention_forward_hopper_fp32_256");
    EXPECT_EQ(kernel_of(DType::fp32, 200, hopper_card(), Op::attention_backward, length),
              "attention_backward_hopper_fp32_256");
  }
  EXPECT_EQ(kernel_of(DType::fp32, 200, hopper_card(), Op::attention, 512, {.causal = true, .window = 100}), "");
  EXPECT_EQ(kernel_of(DType::fp32, 200, hopper_card(), Op::attention, 512, {.causal = true, .soft_cap = 20}), "");
}

TEST(CudaAttention, of_tf32_runs_the_kernels_of_fp32_on_other_cards) {
  EXPECT_EQ(kernel_of(DType::fp32, 64, ampere_card(), Op::attention, 512, {}, true), "attention_forward_split_64");
}

TEST(CudaAttention, of_few_keys_runs_the_portable_forward_on_hopper) {
  EXPECT_EQ(kernel_of(DType::bf16, 128, hopper_card(), Op::attention, 256), "attention_forward_tiled_bf16_128");
  EXPECT_EQ(kernel_of(DType::bf16, 128, hopper_card(), Op::attention, 257), "attention_forward_hopper_bf16_128");
  EXPECT_EQ(kernel_of(DType::bf16, 64, hopper_card(), Op::attention_backward, 16), "attention_backward_hopper_bf16_64");
}

TEST(CudaAttention, of_short_sequences_has_kernels_of_its_own_on_hopper) {
  const AttentionForm causal{.causal = true};
  for (const auto& [length, kernel] : {std::pair{16, "short"}, {256, "short"}, {257, "streams"}, {2048, "streams"}}) {
    for (const AttentionForm& form : {AttentionForm{}, causal}) {
      EXPECT_EQ(kernel_of(DType::fp16, 64, hopper_card(), Op::attention, length, form),
                fmt::format("attention_forward_hopper_{}_fp16_64", kernel));
    }
  }
  EXPECT_EQ(kernel_of(DType::fp16, 64, hopper_card(), Op::attention, 2049, causal), "attention_forward_hopper_fp16_64");
  constexpr std::int64_t kLongest = 1024;
  for (const int width : {64, 80, 128}) {
    const int holds = width == 80 ? 96 : width;
    const std::string name = fmt::format("bf16_{}", holds);
    EXPECT_EQ(kernel_of(DType::bf16, width, hopper_card(), Op::attention_backward, kLongest, causal),
              "attention_backward_hopper_short_" + name);
    EXPECT_EQ(kernel_of(DType::bf16, width, hopper_card(), Op::attention_backward, kLongest + 1, causal),
              "attention_backward_hopper_" + name);
    EXPECT_EQ(kernel_of(DType::bf16, width, hopper_card(), Op::attention_backward, kLongest),
              "attention_backward_hopper_" + name);
  }
}

TEST(CudaAttention, of_few_heads_is_divided_among_the_multiprocessors_of_hopper) {
  cuda::CardFacts card = hopper_card();
  card.multiprocessors = 132;
  const AttentionForm causal{.causal = true};
  EXPECT_EQ(kernel_of(DType::bf16, 64, card, Op::attention, 1024), "attention_forward_hopper_few_bf16_64");
  EXPECT_EQ(kernel_of(DType::bf16, 64, card, Op::attention, 8192, causal), "attention_forward_hopper_divided_bf16_64");
  EXPECT_EQ(kernel_of(DType::fp16, 128, card, Op::attention, 2048, causal),
            "attention_forward_hopper_divided_fp16_128");
  EXPECT_EQ(kernel_of(DType::bf16, 64, card, Op::attention_backward, 1024),
            "attention_backward_hopper_divided_bf16_64");
  EXPECT_EQ(kernel_of(DType::fp16, 80, card, Op::attention_backward, 8192, causal),
            "attention_backward_hopper_divided_fp16_96");
  card.multiprocessors = 4;
  EXPECT_EQ(kernel_of(DType::bf16, 64, card, Op::attention, 8192, causal), "attention_forward_hopper_bf16_64");
  EXPECT_EQ(kernel_of(DType::bf16, 64, card, Op::attention_backward, 8192, causal),
            "attention_backward_hopper_bf16_64");
}

TEST(CudaAttention, with_a_window_or_a_soft_cap_has_kernels_of_its_own_on_hopper) {
  const AttentionForm window{.causal = true, .window = 128};
  const AttentionForm cap{.causal = true, .soft_cap = 50};
  const AttentionForm both{.causal = true, .window = 128, .soft_cap = 50};
  for (const auto& [form, scores] : {std::pair{window, "window"}, {cap, "soft_cap"}, {both, "soft_cap"}}) {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      for (const int width : {64, 96, 128, 256}) {
        EXPECT_EQ(kernel_of(dtype, width, hopper_card(), Op::attention, 512, form),
                  fmt::format("attention_forward_hopper_{}_{}_{}", scores, name(dtype), width));
        const std::string own = fmt::format("attention_backward_hopper_{}_{}_{}", scores, name(dtype), width);
        EXPECT_EQ(kernel_of(dtype, width, hopper_card(), Op::attention_backward, 512, form), own);
        EXPECT_EQ(kernel_of(dtype, width, ampere_card(), Op::attention, 512, form),
                  fmt::format("attention_forward_tiled_{}_{}", name(dtype), width));
      }
    }
    EXPECT_EQ(kernel_of(DType::bf16, 64, hopper_card(), Op::attention, 256, form), "attention_forward_tiled_bf16_64");
    EXPECT_EQ(kernel_of(DType::fp32, 64, hopper_card(), Op::attention, 512, form), "attention_forward_split_64");
  }
}

// Sums of dq have 64 columns where a head has 8, so they may be more than the operands would let one think.
TEST(CudaAttention, of_more_sums_than_an_index_reaches_runs_the_portable_backward) {
  const auto backward_of = [](std::int64_t width, std::int64_t heads) {
    return kernel_of(DType::bf16, width, hopper_card(), Op::attention_backward, 1000, {}, false, heads);
  };
  constexpr std::int64_t kMostHeads = std::int64_t{1} << 18;  // of 1,024 rows of sums each
  EXPECT_EQ(backward_of(8, kMostHeads), "attention_backward_hopper_bf16_64");
  EXPECT_EQ(backward_of(8, kMostHeads + 1), "attention_backward_tiled_bf16_64");
  EXPECT_EQ(backward_of(72, kMostHeads / 2), "attention_backward_hopper_bf16_96");  // of 128 columns
  EXPECT_EQ(backward_of(72, kMostHeads / 2 + 1), "attention_backward_tiled_bf16_96");
  EXPECT_EQ(kernel_of(DType::bf16, 8, hopper_card(), Op::attention, 1000, {}, false, kMostHeads + 1),
            "attention_forward_hopper_streams_bf16_64");
}

TEST(CudaAttention, of_rotary_tables_that_an_index_does_not_reach_has_no_kernel) {
  constexpr std::int64_t kLength = std::int64_t{1} << 24;
  const auto backward_of = [](std::int64_t pairs) {
    return kernel_of(DType::bf16, 256, hopper_card(), Op::attention_backward, kLength, {}, false, 4, pairs);
  };
  EXPECT_EQ(backward_of(124), "attention_backward_hopper_bf16_256");
  EXPECT_EQ(backward_of(128), "");
}

TEST(CudaAttention, with_a_window_that_hides_no_key_runs_the_kernels_without) {
  for (const std::int64_t window : {512, 4096}) {
    const AttentionForm form{.causal = true, .window = window};
    EXPECT_EQ(kernel_of(DType::bf16, 128, hopper_card(), Op::attention, 512, form),
              "attention_forward_hopper_bf16_128");
    EXPECT_EQ(kernel_of(DType::bf16, 64, hopper_card(), Op::attention_backward, 512, form),
              "attention_backward_hopper_short_bf16_64");
  }
}

TEST(CudaAttention, has_kernels_for_heads_of_whole_vectors_up_to_their_widest) {
  for (const Op op : {Op::attention, Op::attention_backward}) {
    for (const std::int64_t width : {8, 16, 32, 80, 128, 256}) {
      EXPECT_TRUE(has_kernel(DType::bf16, width, hopper_card(), op)) << width;
      EXPECT_TRUE(has_kernel(DType::fp16, width, hopper_card(), op)) << width;
    }
    for (const std::int64_t width : {4, 12, 100, 257, 264, 800}) {
      EXPECT_FALSE(has_kernel(DType::bf16, width, hopper_card(), op)) << width;
    }
    for (const std::int64_t width : {4, 16, 80, 128, 132, 256})
      EXPECT_TRUE(has_kernel(DType::fp32, width, hopper_card(), op)) << width;
    for (const std::int64_t width : {7, 130, 260, 800}) {
      EXPECT_FALSE(has_kernel(DType::fp32, width, hopper_card(), op)) << width;
    }
    EXPECT_FALSE(has_kernel(DType::fp64, 64, hopper_card(), op));
  }
}

// The tiled kernels of each compute capability, which gives a block so much shared memory.
TEST(CudaAttention, has_a_kernel_for_little_shared_memory_at_every_head_size) {
  struct Chosen {
    std::int64_t width;
    const char* forward;
    const char* backward;
  };
  constexpr std::array kWith163KiB = {Chosen{64, "64", "64"}, Chosen{80, "96", "96"}, Chosen{96, "96", "96"},
                                      Chosen{128, "128", "128"}, Chosen{256, "256", "256_compact"}};
  constexpr std::array kWith99KiB = {Chosen{64, "64", "64"}, Chosen{80, "96", "96_narrow"},
                                     Chosen{96, "96", "96_narrow"}, Chosen{128, "128", "128_narrow"},
                                     Chosen{256, "256_narrow", "256_narrow"}};
  for (const cuda::ComputeCapability capability :
       {cuda::ComputeCapability{8, 0}, {8, 6}, {8, 7}, {8, 9}, {12, 0}, {12, 1}}) {
    cuda::CardFacts card = ampere_card();
    card.capability = capability;
    card.shared_bytes_per_block = cuda::shared_bytes_per_block(capability);
    const bool is_large = capability.number() == 80 || capability.number() == 87;
    for (const Chosen& chosen : is_large ? kWith163KiB : kWith99KiB) {
      for (const DType dtype : {DType::bf16, DType::fp16}) {
        const std::string type(name(dtype));
        EXPECT_EQ(kernel_of(dtype, chosen.width, card, Op::attention),
                  "attention_forward_tiled_" + type + '_' + chosen.forward);
        EXPECT_EQ(kernel_of(dtype, chosen.width, card, Op::attention_backward),
                  "attention_backward_tiled_" + type + '_' + chosen.backward);
      }
    }
  }
}

TEST(CudaAttention, has_no_kernel_that_needs_more_shared_memory_than_a_card_gives_a_block) {
  cuda::CardFacts card = hopper_card();
  card.shared_bytes_per_block = 99 * 1024;  // compute capability 8.6 and 8.9
  EXPECT_TRUE(has_kernel(DType::fp32, 64, card, Op::attention));
  EXPECT_FALSE(has_kernel(DType::fp32, 128, card, Op::attention));
  EXPECT_FALSE(has_kernel(DType::fp32, 64, card, Op::attention_backward));
  card.shared_bytes_per_block = 163 * 1024;  // compute capability 8.0
  EXPECT_TRUE(has_kernel(DType::fp32, 128, card, Op::attention));
  EXPECT_TRUE(has_kernel(DType::fp32, 64, card, Op::attention_backward));
  EXPECT_FALSE(has_kernel(DType::fp32, 128, card, Op::attention_backward));
}

}  // namespace
}  // namespace ridgepoint
