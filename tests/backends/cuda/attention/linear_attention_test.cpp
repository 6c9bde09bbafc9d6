// Linear attention on the GPU, against the recurrence in double; and which of its kernels runs.
#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "backends/cuda/card.h"
#include "backends/cuda/card_choices.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/node_run.h"

namespace ridgepoint {
namespace {

using testing::LayoutChoice;
using testing::NodeRun;
using testing::Operand;

// The kernel of a derivative on a card with so much shared memory; empty if it has none.
std::string kernel_of(DType dtype, std::int64_t key_width, bool delta, std::size_t shared_bytes) {
  cuda::CardFacts card;
  card.capability = {8, 0};
  card.shared_bytes_per_block = shared_bytes;
  Graph graph;
  const auto in = [&](const char* name, DType of, const Shape& shape) {
    return input(graph, name, {of, shape}, Role::data);
  };
  const Value d_o = in("d_o", dtype, {4, 70, 64}), v = in("v", dtype, {4, 70, 64});
  const Value q = in("q", dtype, {2, 70, key_width}), k = in("k", dtype, {2, 70, key_width});
  const Value g = in("g", accumulator(dtype), {4, 70}), beta = in("beta", accumulator(dtype), {4, 70});
  const NodeId made =
      make_node(graph, Op::linear_attention_backward, {d_o, q, k, v, g, beta}, {{"delta", delta}, {"scale", 1.0}});
  const cuda::KernelVariant* found = cuda::find_variant(card, graph, graph.node(made));
  return found == nullptr ? "" : found->entry + (found->tiling.columns == 1 ? std::string(" alone") : "");
}

TEST(CudaLinearAttention, holds_two_chunks_where_shared_memory_has_room_for_them) {
  constexpr std::size_t kKibibyte = 1024;
  EXPECT_EQ(kernel_of(DType::bf16, 128, true, 227 * kKibibyte), "linear_attention_backward_chunked_bf16_128");
  EXPECT_EQ(kernel_of(DType::bf16, 100, true, 99 * kKibibyte), "linear_attention_backward_chunked_bf16_128 alone");
  EXPECT_EQ(kernel_of(DType::fp16, 129, true, 227 * kKibibyte), "linear_attention_backward_chunked_fp16_256");
  EXPECT_EQ(kernel_of(DType::fp32, 128, false, 99 * kKibibyte), "linear_attention_backward_chunked_fp32_128 alone");
  EXPECT_EQ(kernel_of(DType::fp32, 257, false, 227 * kKibibyte), "");
}

TEST(CudaLinearAttention, says_what_no_kernel_takes) {
  Graph graph;
  const auto in = [&](const char* name, const Shape& shape) {
    return input(graph, name, {DType::fp32, shape}, Role::data);
  };
  const Value q = in("q", {4, 257}), v = in("v", {4, 8}), g = in("g", {4});
  const Node& node = graph.producer_node(gated_delta_rule(graph, q, q, v, g, g, 1.0));
  std::vector<TensorLayout> inputs, outputs = {dense_layout(graph.type(node.outputs[0]))};
  for (const Value value : node.inputs) inputs.push_back(dense_layout(graph.type(value)));
  const auto card = make_described_card({.name = "a card", .compute_capability = 90});
  EXPECT_THAT(
      [&] {
        card->outline({graph, node, inputs, outputs});
      },
      ::testing::ThrowsMessage<Error>(
          ::testing::HasSubstr("no CUDA kernel takes 'linear_attention' of fp32[4,257], fp32[4,257], fp32[4,8]")));
}

double linear_tolerance(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 1.5e-2;
    case DType::fp16: return 2e-3;
    case DType::fp64: return 1e-13;
    default: return 2e-6;
  }
}

class OnCardLinearAttention : public testing::OnCard {
 protected:
  Operand scaled(DType dtype, const Shape& shape, double factor, double shift, const LayoutChoice& choice = {}) {
    Operand made = testing::make_operand(dtype, shape, choice);
    for (std::size_t i = 0; i < made.storage.size(); i += size_bytes(dtype)) {
      const double value = shift + factor * std::normal_distribution<double>()(random_);
      store_element(dtype, made.storage.data() + i, shift == 0 ? value : std::min(std::max(value, -1.0), 1.0));
    }
    return made;
  }

  void expect_agrees(const Shape& keys, const Shape& values, DType dtype, bool delta, const LayoutChoice& choice = {}) {
    const Shape rows(std::vector<Dim>(values.dims().begin(), values.dims().end() - 1));
    const double of_key = 1 / std::sqrt(static_cast<double>(keys[-1]));
    std::vector<Operand> operands = {scaled(dtype, keys, 1, 0, choice), scaled(dtype, keys, of_key, 0, choice),
                                     scaled(dtype, values, 1, 0, choice), scaled(accumulator(dtype), rows, 0.1, -0.15),
                                     scaled(accumulator(dtype), rows, 0.2, 0.5)};
    const Attributes attributes = {{"delta", delta}, {"scale", 0.3}};
    expect_agrees(Op::linear_attention, operands, attributes, choice);
    operands.insert(operands.begin(), scaled(dtype, values, 1, 0, choice));
    expect_agrees(Op::linear_attention_backward, operands, attributes, choice);
  }
  // By every kernel of this card that can run the node.
  void expect_agrees(Op op, const std::vector<Operand>& operands, const Attributes& attributes,
                     const LayoutChoice& choice) {
    const std::vector<HostTensor> expected = testing::reference_outputs(op, operands, attributes);
    const testing::LoneNode lone(op, operands, attributes);
    cuda::CudaContext& context = cuda::CudaContext::of_card(0);
    for (const cuda::KernelVariant& variant : cuda::kernel_variants()) {
      if (!variant.supports(context.card(), lone.graph, lone.node())) continue;
      NodeRun run(*device_, op, operands, attributes,
                  [&](const KernelSpec& spec) { return variant.make(context, spec, variant); }, false,
                  {choice, choice, choice});
      testing::expect_near_and_repeated(run, expected, variant.entry, [&](std::size_t i, DType) {
        const double cancelled = i == 3 ? 4 : 1;  // the gradient of g is a difference of sums
        return cancelled * linear_tolerance(operands[0].layout.dtype);
      });
    }
  }

  std::mt19937 random_{37};
};

constexpr DType kFloats[] = {DType::bf16, DType::fp16, DType::fp32, DType::fp64};

TEST_F(OnCardLinearAttention, agrees_for_any_number_of_tokens) {
  for (const DType dtype : kFloats) {
    for (const bool delta : {false, true}) {
      for (const std::int64_t tokens : {1, 3, 63, 64, 65, 113, 239})
        expect_agrees({1, tokens, 128}, {2, tokens, 64}, dtype, delta);
    }
  }
}

TEST_F(OnCardLinearAttention, agrees_for_heads_of_any_width) {
  for (const DType dtype : kFloats) {
    for (const bool delta : {false, true}) {
      for (const auto& [key_width, value_width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
               {128, 128}, {16, 80}, {5, 7}, {1, 1}, {200, 24}, {256, 40}})
        expect_agrees({2, 2, 70, key_width}, {2, 6, 70, value_width}, dtype, delta);
    }
  }
}

// So many that blocks have two slices of the state, of which the last is not whole.
TEST_F(OnCardLinearAttention, agrees_for_many_heads) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const bool delta : {false, true}) {
      for (const std::int64_t value_width : {64, 72}) expect_agrees({2, 70, 128}, {150, 70, value_width}, dtype, delta);
    }
  }
}

TEST_F(OnCardLinearAttention, reads_and_writes_heads_where_a_projection_has_them) {
  const LayoutChoice by_token{.storage_order = {0, 2, 1, 3}};
  for (const DType dtype : kFloats) {
    for (const bool delta : {false, true}) expect_agrees({2, 2, 100, 64}, {2, 4, 100, 64}, dtype, delta, by_token);
  }
}

TEST_F(OnCardLinearAttention, makes_nothing_of_nothing) {
  for (const bool delta : {false, true}) expect_agrees({1, 0, 16}, {2, 0, 16}, DType::bf16, delta);
}

}  // namespace
}  // namespace ridgepoint
