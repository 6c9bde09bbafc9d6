// Gradients of rotated queries and keys: the backward of attention turns them back as it writes them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/attention/attention_case.h"

namespace ridgepoint {
namespace {

using testing::AttentionCase;
using testing::LoneNode;
using testing::NodeRun;
using testing::Operand;

constexpr std::size_t kFirstTable = 6;  // of the operands

// do, q, k, v, o, log-sum-exp, cosines and sines.
std::vector<Operand> rotated_operands(const AttentionCase& c, std::int64_t pairs) {
  const Operand queries = testing::make_operand(c.dtype, c.of_queries());
  const Operand keys = testing::make_operand(c.dtype, c.of_keys());
  const Operand rows = testing::make_operand(accumulator(c.dtype), {c.batch, c.queries});
  const Operand table = testing::make_operand(accumulator(c.dtype), {c.queries, pairs});
  return {queries, queries, keys, keys, queries, rows, table, table};
}

AttentionCase of_width(DType dtype, std::int64_t width) {
  return {.dtype = dtype, .batch = 4, .queries = 300, .keys = 300, .width = width, .causal = true};
}

TEST(RotaryAttention, has_kernels_for_16_bit_operands_on_hopper_and_tables_of_whole_vectors) {
  const auto runs = [](const AttentionCase& c, std::int64_t pairs, cuda::ComputeCapability capability) {
    cuda::CardFacts card;
    card.capability = capability;
    card.shared_bytes_per_block = std::size_t{227} * 1024;
    const LoneNode lone(Op::attention_backward, rotated_operands(c, pairs), c.attributes(Op::attention_backward));
    return cuda::has_hand_written(card, lone.graph, lone.node());
  };
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    EXPECT_TRUE(runs(of_width(dtype, 64), 32, {9, 0}));
    EXPECT_TRUE(runs(of_width(dtype, 128), 16, {9, 0})) << "a part of each head";
    EXPECT_FALSE(runs(of_width(dtype, 64), 30, {9, 0})) << "rows of 120 bytes";
    EXPECT_FALSE(runs(of_width(dtype, 64), 32, {8, 0}));
  }
  EXPECT_FALSE(runs(of_width(DType::fp32, 64), 32, {9, 0}));
}

// A table as a slice of a vector: 300 rows of 32 behind so many other elements.
TEST(RotaryAttention, has_kernels_for_tables_that_begin_at_whole_vectors) {
  const AttentionCase c = of_width(DType::bf16, 64);
  for (const std::int64_t before : {0, 1, 2, 4, 32}) {
    LoneNode lone(Op::attention_backward, rotated_operands(c, 32), c.attributes(Op::attention_backward));
    Graph& graph = lone.graph;
    const Value whole = input(graph, "vector", {DType::fp32, {before + 300 * 32}}, Role::data);
    const Value slice = before == 0 ? whole : split(graph, whole, 0, {before, 300 * 32})[1];
    std::vector<Value> operands = lone.values;
    operands[kFirstTable + 1] = reshape(graph, slice, {300, 32});
    const NodeId node = make_node(graph, Op::attention_backward, operands, c.attributes(Op::attention_backward));
    cuda::CardFacts card;
    card.capability = {9, 0};
    card.shared_bytes_per_block = std::size_t{227} * 1024;
    EXPECT_EQ(cuda::has_hand_written(card, graph, graph.node(node)), before % 4 == 0) << before;
  }
}

TEST(RotaryAttention, needs_tables_of_the_rows_and_no_more_than_a_head) {
  const AttentionCase c = of_width(DType::bf16, 64);
  const auto make = [&](std::int64_t rows, std::int64_t pairs, DType dtype) {
    std::vector<Operand> operands = rotated_operands(c, pairs);
    for (const std::size_t table : {kFirstTable, kFirstTable + 1})
      operands[table] = testing::make_operand(dtype, {rows, pairs});
    LoneNode(Op::attention_backward, operands, c.attributes(Op::attention_backward));
  };
  EXPECT_NO_THROW(make(300, 32, DType::fp32));
  EXPECT_THROW(make(299, 32, DType::fp32), Error);
  EXPECT_THROW(make(300, 33, DType::fp32), Error);
  EXPECT_THROW(make(300, 32, DType::bf16), Error);
}

struct OnCardRotaryAttention : testing::OnCardAttention {
  // The first columns of a tensor [...,S,D], or the others.
  static std::pair<HostTensor, HostTensor> divided(const HostTensor& whole, std::int64_t columns) {
    const std::int64_t width = whole.type.shape[-1];
    const std::int64_t rows = whole.type.elements() / width;
    const auto bytes = static_cast<std::int64_t>(size_bytes(whole.type.dtype));
    HostTensor first({whole.type.dtype, {rows, columns}}), rest({whole.type.dtype, {rows, width - columns}});
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto from = whole.data.begin() + row * width * bytes;
      std::copy_n(from, columns * bytes, first.data.begin() + row * columns * bytes);
      std::copy_n(from + columns * bytes, (width - columns) * bytes,
                  rest.data.begin() + row * (width - columns) * bytes);
    }
    return {std::move(first), std::move(rest)};
  }

  // The bits of the first columns of a gradient, turned back by the kernel of rope.
  std::vector<std::byte> turned_back(const HostTensor& first, const AttentionCase& c,
                                     const std::vector<Operand>& tables) {
    const std::int64_t columns = first.type.shape[-1];
    const Shape shape{first.type.shape[0] / c.queries, c.queries, columns};
    const Operand x{dense_layout({c.dtype, shape}), first.data};
    NodeRun run(*device_, Op::rope, {x, tables[0], tables[1]}, {{"axis", std::int64_t{1}}, {"inverse", true}});
    return run.launch()[0].data;
  }

  // Of every kernel that takes the tables: the bits of its gradients without, rotated afterwards.
  void expect_equal_bits(const AttentionCase& c, std::int64_t pairs) {
    SCOPED_TRACE(fmt::format("{}, {} pairs", c.text(), pairs));
    const std::vector<Operand> operands = forward_operands(c);
    const std::vector<HostTensor> results = NodeRun(*device_, Op::attention, operands, c.attributes()).launch();
    std::vector<Operand> plain = backward_operands(operands, results, c);
    std::vector<Operand> rotary = plain;
    for (int table = 0; table < 2; ++table) rotary.push_back(random(DType::fp32, {c.queries, pairs}));
    const std::vector<Operand> tables(rotary.begin() + kFirstTable, rotary.end());
    const Attributes attributes = c.attributes(Op::attention_backward);
    const LoneNode lone(Op::attention_backward, rotary, attributes);
    int kernels = 0;
    for (const cuda::KernelVariant& variant : cuda::kernel_variants()) {
      if (!variant.supports(cuda::CudaContext::of_card(0).card(), lone.graph, lone.node())) continue;
      SCOPED_TRACE(variant.entry);
      ++kernels;
      const auto make = [&](const KernelSpec& spec) {
        return variant.make(cuda::CudaContext::of_card(0), spec, variant);
      };
      const std::vector<HostTensor> before =
          NodeRun(*device_, Op::attention_backward, plain, attributes, make).launch();
      NodeRun run(*device_, Op::attention_backward, rotary, attributes, make);
      const std::vector<HostTensor> found = run_twice(run);
      EXPECT_EQ(found[2].data, before[2].data) << "the gradient of v";
      for (const std::size_t i : {0, 1}) {
        const auto [first, rest] = divided(before[i], 2 * pairs);
        const auto [found_first, found_rest] = divided(found[i], 2 * pairs);
        EXPECT_EQ(found_rest.data, rest.data) << "columns of gradient " << i << " that are not rotated";
        EXPECT_EQ(found_first.data, turned_back(first, c, tables)) << "gradient " << i;
      }
    }
    EXPECT_GT(kernels, 0);
  }
};

TEST_F(OnCardRotaryAttention, has_the_bits_of_gradients_that_are_rotated_afterwards) {
  if (cuda::CudaContext::of_card(0).card().capability.number() != 90) GTEST_SKIP() << "not a Hopper GPU";
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const std::int64_t width : {64, 80, 96, 128, 256}) {
      if (dtype == DType::fp16 && width != 64 && width != 128) continue;
      for (const std::int64_t length : {65, 300}) {
        for (const bool causal : {false, true}) {
          AttentionCase c{.dtype = dtype, .batch = 3, .queries = length, .keys = length, .width = width};
          c.causal = causal;
          expect_equal_bits(c, width / 2);
          if (length == 300) expect_equal_bits(c, 8);
        }
      }
    }
  }
}

TEST_F(OnCardRotaryAttention, has_the_same_bits_with_windows_soft_caps_and_shared_keys) {
  if (cuda::CudaContext::of_card(0).card().capability.number() != 90) GTEST_SKIP() << "not a Hopper GPU";
  for (const std::int64_t width : {64, 128, 256}) {
    expect_equal_bits(testing::with_window(DType::bf16, 3, 400, width, 70), width / 2);
    expect_equal_bits(testing::with_soft_cap(of_width(DType::bf16, width), 2), width / 2);
    for (const bool sums : {false, true}) {
      AttentionCase c = of_width(DType::bf16, width);
      c.batch = 6;
      c.group = 3;
      c.sums_key_gradients = sums;
      expect_equal_bits(c, width / 2);
    }
  }
}

}  // namespace
}  // namespace ridgepoint
