// The transformer with attention in primitive ops: the pass finds every layer, and the memory is that of the attention
// op.
#include <gtest/gtest.h>

#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/architectures.h"

namespace ridgepoint {
namespace {

using testing::count;

TransformerConfig tiny(AttentionVariant variant, std::int64_t context = 64) {
  TransformerConfig config = transformer_preset("tiny");
  config.attention = variant;
  config.context = context;
  return config;
}

TEST(RecogniseAttention, finds_every_layer_of_the_model) {
  const std::shared_ptr<Device> device = open_device("cpu");
  for (const AttentionVariant variant :
       {AttentionVariant::naive, AttentionVariant::composite, AttentionVariant::softmax}) {
    const TransformerConfig config = tiny(variant);
    const Graph graph =
        ProgramPlan(build_transformer(config, 2), device, {.compile = {.mode = Mode::step, .level = Compile::fuse}})
            .graph();
    for (const Op op : {Op::attention, Op::attention_backward}) {
      EXPECT_EQ(count(graph, op), static_cast<std::size_t>(config.layers)) << name(variant);
    }
    EXPECT_EQ(count(graph, Op::softmax) + count(graph, Op::causal_mask), 0U) << name(variant);
  }
}

TEST(RecogniseAttention, finds_shared_heads_windows_and_soft_caps) {
  const std::shared_ptr<Device> device = open_device("cpu");
  for (const TransformerConfig& config : testing::architectures()) {
    // Scores of sinks, those with a term of each key, and heads of values of another size are not the op's, and chunks
    // have a node of their own each.
    const Architecture& a = config.architecture;
    if (a.sinks || a.latent.kv_rank > 0 || a.chunks || a.positions == Positions::linear_bias) continue;
    if (a.compressed.q_rank > 0) continue;  // has sinks, too
    // Nor are scores that an indexer masks.
    std::size_t attending = 0, masked = 0;
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      attending += attends(a.mixer(layer)) && !a.selection.has_indexer(layer) ? 1 : 0;
      masked += a.selection.has_indexer(layer) ? 1 : 0;
    }
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const Graph graph = ProgramPlan(build_transformer(config, 2), device,
                                      {.compile = {.mode = Mode::step, .precision = precision, .level = Compile::fuse}})
                              .graph();
      EXPECT_EQ(count(graph, Op::attention), attending) << config.name;
      EXPECT_EQ(count(graph, Op::attention_backward), attending) << config.name;
      EXPECT_EQ(count(graph, Op::causal_mask), masked) << config.name;
    }
  }
}

TEST(RecogniseAttention, leaves_a_model_whose_scores_are_kept_for_reading) {
  const std::shared_ptr<Device> device = open_device("cpu");
  ProgramOptions options;
  options.compile = {.mode = Mode::forward_backward, .level = Compile::fuse, .keep = {.activations = true}};
  const Graph graph = ProgramPlan(build_transformer(tiny(AttentionVariant::composite), 2), device, options).graph();
  EXPECT_EQ(count(graph, Op::attention), 0U);
}

struct Memory {
  std::size_t peak_bytes, before_backward_bytes;
  friend bool operator==(const Memory&, const Memory&) = default;
};
void PrintTo(const Memory& memory, std::ostream* out) {
  *out << "peak " << memory.peak_bytes << ", before backward " << memory.before_backward_bytes;
}

Memory memory_of(const TransformerConfig& config, Compile how) {
  Program program(build_transformer(config, 2), open_device("null"), {.compile = {.mode = Mode::step, .level = how}});
  program.run();
  return {program.memory_use().peak_allocated_bytes, program.before_backward_bytes()};
}

TEST(RecogniseAttention, leaves_no_more_in_memory_than_attention_asked_for_by_name) {
  for (const std::int64_t context : {64, 1024}) {
    const Memory flash = memory_of(tiny(AttentionVariant::flash, context), Compile::fuse);
    EXPECT_EQ(memory_of(tiny(AttentionVariant::composite, context), Compile::fuse), flash);
    EXPECT_EQ(memory_of(tiny(AttentionVariant::softmax, context), Compile::fuse), flash);
    EXPECT_GT(memory_of(tiny(AttentionVariant::softmax, context), Compile::off).before_backward_bytes,
              flash.before_backward_bytes);
  }
}

}  // namespace
}  // namespace ridgepoint
