// Attention written in plain ops: the forms that become the attention op, with the same values and gradients.
#include <cmath>

#include "models/transformer.h"
#include "passes/attention_in_plain_ops.h"
#include "passes/autocast.h"
#include "ridgepoint/autodiff.h"
#include "ridgepoint/program.h"

namespace ridgepoint {
namespace {

using testing::constant_like;
using testing::count;
using testing::kScale;
using testing::masked;
using testing::masked_by_positions;
using testing::Operands;
using testing::products;
using testing::recognise;
using testing::RecogniseAttention;
using testing::scaled_products;
using testing::softmax_written_out;
using testing::turned;

struct Form {
  const char* name;
  Value (*build)(Graph&, const Operands&);
  bool causal = false;
  double scale = kScale;
  Shape queries = {2, 3, 5, 4};
  Shape keys = {2, 3, 5, 4};
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

const std::vector<Form>& forms() {
  using X = const Operands&;
  static const std::vector<Form> all = {
      {"scale_on_the_product",
       [](Graph& g, X x) { return matmul(g, softmax_written_out(g, scaled_products(g, x)), x.v); }},
      {"the_softmax_op", [](Graph& g, X x) { return matmul(g, softmax(g, scaled_products(g, x)), x.v); }},
      {"a_causal_mask",
       [](Graph& g, X x) { return matmul(g, softmax_written_out(g, masked(g, scaled_products(g, x))), x.v); }, true},
      {"a_mask_before_the_scale",
       [](Graph& g, X x) { return matmul(g, softmax(g, scale(g, masked(g, products(g, x)), kScale)), x.v); }, true},
      {"a_mask_in_plain_ops",
       [](Graph& g, X x) {
         const Value scores = masked_by_positions(g, scaled_products(g, x), {5, 5}, 0, {5, 5}, 1);
         return matmul(g, softmax_written_out(g, scores), x.v);
       },
       true},
      {"a_mask_of_a_row_and_a_column",
       [](Graph& g, X x) {
         const Value scores = masked_by_positions(g, scaled_products(g, x), {5, 1}, 0, {5}, 0, DType::fp64);
         return matmul(g, softmax_written_out(g, scores), x.v);
       },
       true},
      {"no_scale", [](Graph& g, X x) { return matmul(g, softmax_written_out(g, products(g, x)), x.v); }, false, 1.0},
      {"the_scale_in_q",
       [](Graph& g, X x) {
         return matmul(g, softmax(g, products(g, {scale(g, x.q, kScale), x.k, x.v})), x.v);
       }},
      {"the_scale_in_k",
       [](Graph& g, X x) {
         return matmul(g, softmax(g, products(g, {x.q, scale(g, x.k, kScale), x.v})), x.v);
       }},
      {"the_scale_in_k_once_turned",
       [](Graph& g, X x) { return matmul(g, softmax(g, matmul(g, x.q, scale(g, turned(g, x.k), kScale))), x.v); }},
      {"its_root_in_q_and_in_k",
       [](Graph& g, X x) {
         const Value q = div(g, x.q, constant_like(g, x.q, 2.0));
         const Value k = mul(g, constant_like(g, x.k, 0.25), x.k);
         return matmul(g, softmax(g, products(g, {q, k, x.v})), x.v);
       },
       false, 0.125},
      {"a_division",
       [](Graph& g, X x) {
         const Value scores = products(g, x);
         return matmul(g, softmax_written_out(g, div(g, scores, constant_like(g, scores, 2.0))), x.v);
       },
       false, 0.5},
      {"a_constant_spread_over_the_scores",
       [](Graph& g, X x) {
         const Value scores = products(g, x);
         const Value factor = broadcast(g, constant_like(g, scores, kScale), g.type(scores).shape);
         return matmul(g, softmax_written_out(g, mul(g, scores, factor)), x.v);
       }},
      {"a_maximum_that_is_not_detached",
       [](Graph& g, X x) {
         const Value scores = scaled_products(g, x);
         const Value e = exp(g, sub(g, scores, reduce_max(g, scores, {3}, true)));
         return matmul(g, div(g, e, reduce_sum(g, e, {3}, true)), x.v);
       }},
      {"rows_reduced_without_keeping_their_axis",
       [](Graph& g, X x) {
         const Value scores = scaled_products(g, x);
         const Shape square = g.type(scores).shape;
         const auto spread = [&](Value rows) { return broadcast(g, reshape(g, rows, {2, 3, 5, 1}), square); };
         const Value e = exp(g, sub(g, scores, spread(detach(g, reduce_max(g, scores, {-1})))));
         return matmul(g, div(g, e, spread(reduce_sum(g, e, {-1}))), x.v);
       }},
      {"other_lengths_of_queries_and_keys",
       [](Graph& g, X x) { return matmul(g, softmax_written_out(g, scaled_products(g, x)), x.v); },
       false,
       kScale,
       {3, 5, 4},
       {3, 7, 4}},
      {"matrices",
       [](Graph& g, X x) { return matmul(g, softmax_written_out(g, masked(g, scaled_products(g, x))), x.v); },
       true,
       kScale,
       {6, 4},
       {6, 4}},
      {"heads_moved_and_turned_at_once",  // q, k and v [B,S,H,D]
       [](Graph& g, X x) {
         const Value q = transpose(g, x.q, {0, 2, 1, 3});
         const Value v = transpose(g, x.v, {0, 2, 1, 3});
         const Value scores = scale(g, matmul(g, q, transpose(g, x.k, {0, 2, 3, 1})), kScale);
         return transpose(g, matmul(g, softmax_written_out(g, masked(g, scores)), v), {0, 2, 1, 3});
       },
       true},
      {"keys_of_other_heads",  // leading axes swapped with the last two: other pairs of heads, but pairs all the same
       [](Graph& g, X x) {
         return matmul(g, softmax(g, scale(g, matmul(g, x.q, transpose(g, x.k, {1, 0, 3, 2})), kScale)), x.v);
       },
       false,
       kScale,
       {3, 3, 5, 4},
       {3, 3, 5, 4}},
  };
  return all;
}

Operands declare_operands(Graph& graph, const Form& form, DType dtype) {
  return {input(graph, "q", {dtype, form.queries}, Role::data), input(graph, "k", {dtype, form.keys}, Role::data),
          input(graph, "v", {dtype, form.keys}, Role::data)};
}

// o, and the gradients of sum(o w) by q, k and v; recognised in between where asked for.
Graph gradient_graph(const Form& form, bool recognised, DType dtype = DType::fp64) {
  Graph graph;
  const Operands x = declare_operands(graph, form, dtype);
  graph.add_output("o", form.build(graph, x));
  if (recognised) {
    EXPECT_TRUE(recognise(graph));
  }
  const Value o = *graph.find_output("o");
  const Value w = input(graph, "w", {dtype, form.queries}, Role::data);
  std::vector<std::int64_t> axes;
  for (int i = 0; i < form.queries.rank(); ++i) axes.push_back(i);
  const std::vector<Value> gradients =
      differentiate(graph, reduce_sum(graph, mul(graph, o, w), axes), std::array{x.q, x.k, x.v});
  for (std::size_t i = 0; i < 3; ++i) graph.add_output(std::string("d") + "qkv"[i], gradients[i]);
  return graph;
}

class RecognisedForm : public ::testing::TestWithParam<Form> {};

TEST_P(RecognisedForm, becomes_attention_with_the_same_scale_and_mask) {
  Graph graph;
  graph.add_output("o", GetParam().build(graph, declare_operands(graph, GetParam(), DType::fp32)));
  EXPECT_TRUE(recognise(graph));
  for (const Op op : {Op::matmul, Op::softmax, Op::exp, Op::causal_mask}) EXPECT_EQ(count(graph, op), 0U) << name(op);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::attention) continue;
    EXPECT_NEAR(node.attributes.get<double>("scale"), GetParam().scale, 1e-15);
    EXPECT_EQ(node.attributes.get<bool>("causal"), GetParam().causal);
  }
}

TEST_P(RecognisedForm, keeps_its_values_and_gradients_in_double) {
  const Graph written_out = gradient_graph(GetParam(), false);
  const testing::Tensors inputs = testing::random_inputs(written_out, testing::OpCase{Op::attention, "", nullptr}, 11);
  const testing::Tensors expected = testing::run_graph(written_out, open_device("reference"), inputs);
  const Graph recognised = gradient_graph(GetParam(), true);
  EXPECT_EQ(count(recognised, Op::attention_backward), 1U);
  const testing::Tensors found = testing::run_graph(recognised, open_device("reference"), inputs);
  for (const auto& [tensor, value] : expected) {
    EXPECT_LT(testing::relative_error(found.at(tensor), value), 1e-13) << tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(RecogniseAttention, RecognisedForm, ::testing::ValuesIn(forms()),
                         [](const auto& parameter) { return parameter.param.name; });

TEST_F(RecogniseAttention, as_text_leaves_the_op_and_nothing_else) {
  Graph graph = parse_graph(R"(graph "g"
%0:fp32[6,4] = input() {name="q", role="data"} @forward "" ""
%1:fp32[6,4] = input() {name="k", role="data"} @forward "" ""
%2:fp32[6,4] = input() {name="v", role="data"} @forward "" ""
%3:fp32[4,6] = transpose(%1) {permutation=[1,0]} @forward "attn.scores" ""
%4:fp32[6,6] = matmul(%0, %3) @forward "attn.scores" ""
%5:fp32[6,6] = softmax(%4) @forward "attn.softmax" ""
%6:fp32[6,4] = matmul(%5, %2) @forward "attn.values" "model.cpp:7"
output "o" %6
)");
  EXPECT_TRUE(recognise(graph));
  eliminate_dead_code(graph, {});
  const std::string expected = R"(graph "g"
%0:fp32[6,4] = input() {name="q", role="data"} @forward "" ""
%1:fp32[6,4] = input() {name="k", role="data"} @forward "" ""
%2:fp32[6,4] = input() {name="v", role="data"} @forward "" ""
%3:fp32[6,4], %4:fp32[6] = attention(%0, %1, %2) {causal=false, scale=1.0} @forward "attn" "model.cpp:7"
output "o" %3
)";
  EXPECT_EQ(print_graph(parse_graph(print_graph(graph))), expected);
}

TEST_F(RecogniseAttention, reads_a_scaled_operand_that_others_read_as_it_is) {
  const Value q = scale(g, x.q, kScale);
  g.add_output("q.scaled", q);
  finish(softmax(g, products(g, {q, x.k, x.v})));
  EXPECT_TRUE(recognise(g));
  const Node& made = g.producer_node(*g.find_output("o"));
  EXPECT_EQ(made.inputs[0], q);
  EXPECT_EQ(made.attributes.get<double>("scale"), 1.0);
}

TEST_F(RecogniseAttention, rounds_an_operand_once_where_it_was_rounded_once) {
  const auto low = [&](Value value) { return cast(g, value, DType::bf16); };
  const Value scores = matmul(g, low(scale(g, x.q, kScale)), low(turned(g, x.k)));
  g.add_output("o", matmul(g, low(softmax(g, cast(g, scores, DType::fp32))), low(x.v)));
  EXPECT_TRUE(recognise(g));
  const Node& made = g.producer_node(*g.find_output("o"));
  EXPECT_EQ(made.attributes.get<double>("scale"), kScale);
  EXPECT_EQ(g.producer_node(made.inputs[0]).inputs[0], x.q);
  EXPECT_EQ(g.producer_node(made.inputs[1]).inputs[0], x.k);
}

TEST_F(RecogniseAttention, reads_operands_that_were_rounded_and_widened_as_they_are) {
  const auto rounded = [&](Value value) { return cast(g, cast(g, value, DType::bf16), DType::fp32); };
  const Value q = rounded(x.q);
  finish(softmax(g, products(g, {q, x.k, x.v})));
  EXPECT_TRUE(recognise(g));
  EXPECT_EQ(g.producer_node(*g.find_output("o")).inputs[0], q);
}

TEST_F(RecogniseAttention, reads_operands_that_were_rounded_twice_as_they_are) {
  const auto half = [&](Value value) { return cast(g, value, DType::fp16); };
  const Value q = half(cast(g, x.q, DType::bf16));
  const Value scores = cast(g, products(g, {q, half(x.k), x.v}), DType::fp32);
  g.add_output("o", matmul(g, half(softmax(g, scores)), half(x.v)));
  EXPECT_TRUE(recognise(g));
  EXPECT_EQ(g.producer_node(*g.find_output("o")).inputs[0], q);
}

TEST_F(RecogniseAttention, follows_attention_whose_values_are_attention) {
  const Value first = matmul(g, softmax(g, products(g, x)), x.v);
  g.add_output("o", matmul(g, softmax(g, products(g, {first, first, x.v})), first));
  EXPECT_TRUE(recognise(g));
  EXPECT_EQ(count(g, Op::attention), 2U);
}

TEST_F(RecogniseAttention, takes_low_products_around_an_fp32_softmax) {
  for (const Form& form : forms()) {
    Graph graph;
    graph.add_output("o", form.build(graph, declare_operands(graph, form, DType::fp32)));
    autocast(graph, {Precision::bf16});
    const testing::Tensors inputs = testing::random_inputs(graph, testing::OpCase{Op::attention, "", nullptr}, 3);
    const testing::Tensors expected = testing::run_graph(graph, open_device("reference"), inputs);
    EXPECT_TRUE(recognise(graph)) << form.name;
    EXPECT_EQ(graph.type(*graph.find_output("o")).dtype, DType::bf16) << form.name;
    const testing::Tensors found = testing::run_graph(graph, open_device("reference"), inputs);
    EXPECT_LT(testing::relative_error(found.at("o"), expected.at("o")), 1e-2) << form.name;
  }
}

TEST_F(RecogniseAttention, takes_products_of_tf32) {
  finish(softmax(g, scaled_products(g, x)));
  autocast(g, {Precision::tf32});
  EXPECT_TRUE(recognise(g));
}

// On the model.

TransformerConfig tiny(AttentionVariant variant, std::int64_t context = 64) {
  TransformerConfig config = transformer_preset("tiny");
  config.attention = variant;
  config.context = context;
  return config;
}

TEST_F(RecogniseAttention, finds_every_layer_of_the_model) {
  const std::shared_ptr<Device> device = open_device("cpu");
  for (const AttentionVariant variant : {AttentionVariant::composite, AttentionVariant::softmax}) {
    const TransformerConfig config = tiny(variant);
    const Graph graph = build_transformer(config, 2, Mode::step, {}, {.fuse_for = device.get()});
    for (const Op op : {Op::attention, Op::attention_backward}) {
      EXPECT_EQ(count(graph, op), static_cast<std::size_t>(config.layers)) << name(variant);
    }
    EXPECT_EQ(count(graph, Op::softmax) + count(graph, Op::causal_mask), 0U) << name(variant);
  }
}

TEST_F(RecogniseAttention, leaves_a_model_whose_scores_are_kept_for_reading) {
  const std::shared_ptr<Device> device = open_device("cpu");
  const Graph graph = build_transformer(tiny(AttentionVariant::composite), 2, Mode::backward, {.activations = true},
                                        {.fuse_for = device.get()});
  EXPECT_EQ(count(graph, Op::attention), 0U);
}

struct Memory {
  std::size_t peak_bytes, before_backward_bytes;
  friend bool operator==(const Memory&, const Memory&) = default;
};
void PrintTo(const Memory& memory, std::ostream* out) {
  *out << "peak " << memory.peak_bytes << ", before backward " << memory.before_backward_bytes;
}

Memory memory_of(const TransformerConfig& config, bool fused) {
  const std::shared_ptr<Device> device = open_device("null");
  Program program(build_transformer(config, 2, Mode::step, {}, {.fuse_for = fused ? device.get() : nullptr}), device);
  program.run();
  return {program.memory_use().peak_allocated_bytes, program.before_backward_bytes()};
}

TEST_F(RecogniseAttention, leaves_no_more_in_memory_than_attention_asked_for_by_name) {
  for (const std::int64_t context : {64, 1024}) {
    const Memory flash = memory_of(tiny(AttentionVariant::flash, context), false);
    EXPECT_EQ(memory_of(tiny(AttentionVariant::composite, context), true), flash);
    EXPECT_EQ(memory_of(tiny(AttentionVariant::softmax, context), true), flash);
    EXPECT_GT(memory_of(tiny(AttentionVariant::softmax, context), false).before_backward_bytes,
              flash.before_backward_bytes);
  }
}

}  // namespace
}  // namespace ridgepoint
