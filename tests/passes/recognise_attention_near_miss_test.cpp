// Attention written in plain ops with one thing otherwise than recognise_attention asks: the graph must stay as it is.
#include <array>
#include <cmath>

#include "passes/attention_in_plain_ops.h"
#include "passes/autocast.h"
#include "ridgepoint/autodiff.h"

namespace ridgepoint {
namespace {

using testing::kHidden;
using testing::kScale;
using testing::masked;
using testing::masked_by_positions;
using testing::on_device_with_kernels;
using testing::Operands;
using testing::products;
using testing::recognise;
using testing::scaled_products;
using testing::softmax_written_out;

struct RecogniseAttentionNearMiss : testing::RecogniseAttention {};

TEST_F(RecogniseAttentionNearMiss, leaves_a_graph_that_is_already_differentiated) {
  finish(softmax_written_out(g, scaled_products(g, x)));
  const Value loss = reduce_sum(g, *g.find_output("o"), {0, 1, 2});
  g.add_output("dq", differentiate(g, loss, std::array{x.q})[0]);
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_what_the_device_has_no_kernel_for) {
  finish(softmax(g, scaled_products(g, x)));
  const std::string before = print_graph(g);
  EXPECT_FALSE(recognise(g, on_device_with_kernels(false)));
  EXPECT_EQ(print_graph(g), before);
}

TEST_F(RecogniseAttentionNearMiss, leaves_what_the_device_can_compute_but_not_differentiate) {
  finish(softmax(g, scaled_products(g, x)));
  PassOptions options;
  options.target.has_kernel = [](const Graph&, const Node& node) { return node.op == Op::attention; };
  EXPECT_FALSE(recognise(g, options));
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_softmax_over_queries) {
  const Value scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, detach(g, reduce_max(g, scores, {-2}, true))));
  finish(div(g, e, reduce_sum(g, e, {-2}, true)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_sums_over_keys_and_heads) {
  const Value scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, detach(g, reduce_max(g, scores, {-1}, true))));
  finish(div(g, e, reduce_sum(g, e, {0, 2}, true)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_the_sums_of_rows_laid_along_the_columns) {
  for (const bool is_spread : {false, true}) {
    restart();
    const Value q = in("matrix.q", {6, 4});
    const Value scores = products(g, {q, q, q});
    const Value e = exp(g, sub(g, scores, reduce_max(g, scores, {-1}, true)));
    const Value sums = reduce_sum(g, e, {-1});  // [6] meets [6,6] at its last axis
    g.add_output("o", matmul(g, div(g, e, is_spread ? broadcast(g, sums, {6, 6}) : sums), q));
    expect_left();
  }
}

TEST_F(RecogniseAttentionNearMiss, leaves_the_sums_of_columns_laid_along_the_rows) {
  const Value scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, reduce_max(g, scores, {-1}, true)));
  finish(div(g, e, reshape(g, reduce_sum(g, e, {-2}), {2, 6, 1})));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_the_sums_of_rows_spread_over_other_rows) {
  const Value scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, reduce_max(g, scores, {-1}, true)));
  const Value spread = broadcast(g, reduce_sum(g, e, {-1}, true), {3, 2, 6, 2});
  finish(div(g, e, reshape(g, spread, {2, 6, 6})));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_other_functions_than_exponentials_of_differences) {
  for (const bool is_shifted : {true, false}) {
    restart();
    const Value scores = scaled_products(g, x);
    const Value top = reduce_max(g, scores, {-1}, true);
    const Value f = is_shifted ? expm1(g, sub(g, scores, top)) : exp(g, add(g, scores, top));
    finish(div(g, f, reduce_sum(g, f, {-1}, true)));
    expect_left();
  }
}

TEST_F(RecogniseAttentionNearMiss, leaves_weights_that_are_a_result) {
  const Value weights = softmax(g, scaled_products(g, x));
  g.add_output("weights", weights);
  finish(weights);
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_weights_that_multiply_two_values) {
  const Value weights = softmax_written_out(g, scaled_products(g, x));
  g.add_output("other", matmul(g, weights, in("other values", {2, 6, 4})));
  finish(weights);
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_scores_that_are_read_elsewhere) {
  const Value scores = scaled_products(g, x);
  g.add_output("largest", reduce_max(g, scores, {0, 1, 2}));
  finish(softmax(g, scores));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_exponentials_shifted_or_divided_by_something_from_outside) {
  Value scores = scaled_products(g, x);
  finish(div(g, exp(g, sub(g, scores, reduce_max(g, scores, {-1}, true))), in("divisor", {2, 6, 1})));
  expect_left();
  restart();
  scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, in("shift", {2, 6, 1})));
  finish(div(g, e, reduce_sum(g, e, {-1}, true)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_row_sums_that_are_a_result) {
  const Value scores = scaled_products(g, x);
  const Value e = exp(g, sub(g, scores, detach(g, reduce_max(g, scores, {-1}, true))));
  const Value sums = reduce_sum(g, e, {-1}, true);
  g.add_output("sums", sums);
  finish(div(g, e, sums));
  expect_left();
}

// exp(-1e9 - max) is 0 only where the scores are not themselves as low.
TEST_F(RecogniseAttentionNearMiss, leaves_a_mask_of_finite_fill) {
  finish(softmax(g, causal_mask(g, scaled_products(g, x), -1e9)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_mask_in_plain_ops_of_finite_fill) {
  const Value scores = scaled_products(g, x);
  const Value seen = less_equal(g, iota(g, {6, 6}, 1, DType::fp32), iota(g, {6, 6}, 0, DType::fp32));
  finish(softmax(g, where(g, seen, scores, constant(g, -1e9, DType::fp32))));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_mask_of_zeros) {
  finish(softmax(g, causal_mask(g, scaled_products(g, x), 0.0)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_mask_that_is_negated_with_its_scores) {
  finish(softmax(g, scale(g, masked(g, scale(g, products(g, x), -1.0)), -1.0)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_scores_spread_over_a_batch) {
  for (const bool by_a_mask : {false, true}) {
    restart();
    const Value scores = products(g, {in("one q", {1, 6, 4}), in("one k", {1, 6, 4}), x.v});
    const Value factor = broadcast(g, constant(g, kScale, DType::fp32), {2, 6, 6});
    finish(softmax(g, by_a_mask ? masked_by_positions(g, scores, {2, 6, 6}, 1, {2, 6, 6}, 2) : mul(g, scores, factor)));
    expect_left();
  }
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_mask_from_outside) {
  const Value scores = scaled_products(g, x);
  const Value seen = less(g, in("mask", {6, 6}), constant(g, 0.5, DType::fp32));
  finish(softmax(g, where(g, seen, scores, constant(g, kHidden, DType::fp32))));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_bias_on_the_scores) {
  finish(softmax(g, add(g, scaled_products(g, x), in("bias", {6, 6}))));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_mask_that_shows_the_future) {
  const Value scores = masked_by_positions(g, scaled_products(g, x), {6, 6}, 1, {6, 6}, 0);
  finish(softmax(g, scores));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_mask_one_key_wider) {
  const Value scores = scaled_products(g, x);
  const Value row = shift(g, iota(g, {6, 6}, 0, DType::fp32), 1.0);
  const Value seen = less_equal(g, iota(g, {6, 6}, 1, DType::fp32), row);
  finish(softmax(g, where(g, seen, scores, constant(g, kHidden, DType::fp32))));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_mask_that_hides_the_causal_part) {
  const Value scores = scaled_products(g, x);
  const Value seen = less_equal(g, iota(g, {6, 6}, 1, DType::fp32), iota(g, {6, 6}, 0, DType::fp32));
  finish(softmax(g, where(g, seen, constant(g, kHidden, DType::fp32), scores)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_mask_by_batch_in_place_of_position) {
  const Value scores = masked_by_positions(g, scaled_products(g, x), {2, 6, 1}, 0, {6}, 0);
  finish(softmax(g, scores));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_mask_whose_keys_are_all_numbered_zero) {
  const Value scores = masked_by_positions(g, scaled_products(g, x), {6, 1}, 0, {6, 1}, 1);
  finish(softmax(g, scores));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_positions_too_coarse_to_tell_apart) {
  finish(softmax(g, masked_by_positions(g, scaled_products(g, x), {6, 6}, 0, {6, 6}, 1, DType::bf16)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_causal_mask_of_unequal_lengths) {
  const Operands longer{x.q, in("long k", {2, 9, 4}), in("long v", {2, 9, 4})};
  g.add_output("o", matmul(g, softmax(g, masked(g, scaled_products(g, longer))), longer.v));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_weights_with_dropout) {
  const Value kept = in("kept", {2, 6, 6});
  finish(mul(g, softmax(g, scaled_products(g, x)), kept));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_weights_that_are_scaled) {
  finish(scale(g, softmax(g, scaled_products(g, x)), 0.9));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_scale_that_is_not_constant) {
  finish(softmax(g, mul(g, products(g, x), in("temperature", {}))));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_scale_for_each_head) {
  finish(softmax(g, mul(g, products(g, x), in("temperatures", {2, 1, 1}))));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_scales_that_are_not_positive) {
  for (const double factor : {-0.5, 0.0, kHidden}) {
    restart();
    finish(softmax(g, scale(g, products(g, x), factor)));
    expect_left();
  }
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_scale_too_small_for_a_number) {
  finish(softmax(g, scale(g, scale(g, products(g, x), 1e-200), 1e-200)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_heads_without_elements) {
  const Operands none{in("no q", {2, 6, 0}), in("no k", {2, 6, 0}), in("no v", {2, 6, 0})};
  g.add_output("o", matmul(g, softmax(g, products(g, none)), none.v));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_constant_divided_by_scores) {
  finish(softmax(g, div(g, constant(g, 2.0, DType::fp32), products(g, x))));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_shift_by_the_maximum_of_other_scores) {
  const Value scores = products(g, x);
  const Value scaled = scale(g, scores, kScale);
  const Value e = exp(g, sub(g, scaled, detach(g, reduce_max(g, scores, {-1}, true))));
  finish(div(g, e, reduce_sum(g, e, {-1}, true)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_sum_of_exponentials_of_another_scale) {
  const Value scores = products(g, x);
  const auto exponentials = [&](double factor) {
    const Value scaled = scale(g, scores, factor);
    return exp(g, sub(g, scaled, detach(g, reduce_max(g, scaled, {-1}, true))));
  };
  const Value above = exponentials(0.3);
  finish(div(g, above, reduce_sum(g, exponentials(0.4), {-1}, true)));
  expect_left();
}

// It overflows where the scores pass 88; the op would not, and the values would differ.
TEST_F(RecogniseAttentionNearMiss, leaves_exponentials_without_a_shift) {
  const Value e = exp(g, scaled_products(g, x));
  finish(div(g, e, reduce_sum(g, e, {-1}, true)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_keys_that_are_not_turned) {
  const Operands square{in("square q", {2, 4, 4}), in("square k", {2, 4, 4}), in("square v", {2, 4, 4})};
  g.add_output("o", matmul(g, softmax(g, matmul(g, square.q, square.k)), square.v));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_keys_whose_heads_alone_are_moved) {
  const Value q = in("square q", {2, 2, 4, 4});
  const Value k = transpose(g, in("square k", {2, 2, 4, 4}), {1, 0, 2, 3});
  g.add_output("o", matmul(g, softmax(g, matmul(g, q, k)), q));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_values_of_another_head_size) {
  x.v = in("wide v", {2, 6, 5});
  finish(softmax(g, scaled_products(g, x)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_operands_that_batches_share) {
  for (Value Operands::*shared : {&Operands::q, &Operands::k, &Operands::v}) {
    restart();
    x.*shared = broadcast(g, in("one", {1, 6, 4}), {2, 6, 4});
    finish(softmax(g, scaled_products(g, x)));
    expect_left();
  }
}

TEST_F(RecogniseAttentionNearMiss, leaves_heads_in_groups) {
  const Value q = in("heads of q", {1, 6, 5, 4});
  const auto grouped = [&](const char* name) {
    return reshape(g, broadcast(g, in(name, {1, 2, 1, 5, 4}), {1, 2, 3, 5, 4}), {1, 6, 5, 4});
  };
  const Operands heads{q, grouped("groups of k"), grouped("groups of v")};
  g.add_output("o", matmul(g, softmax(g, scaled_products(g, heads)), heads.v));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_softmax_asked_for_as_plain_ops) {
  finish(g.node(make_node(g, Op::softmax, {scaled_products(g, x)}, {{"plain", true}})).outputs[0]);
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_softmax_in_low_precision) {
  const auto low = [&](Value value) { return cast(g, value, DType::bf16); };
  x = {low(x.q), low(x.k), low(x.v)};
  finish(softmax(g, scaled_products(g, x)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_exponentials_in_low_precision) {
  finish(softmax_written_out(g, scaled_products(g, x)));
  autocast(g, {Precision::bf16, {Op::exp}});
  expect_left();
}

// 2^18 is no fp16, and a hundred thousandth of it is: taken out of the cast, the scale would leave infinities behind.
TEST_F(RecogniseAttentionNearMiss, leaves_a_scale_behind_a_rounding_to_fp16) {
  const auto low = [&](Value value) { return cast(g, value, DType::fp16); };
  for (const bool of_keys : {false, true}) {
    restart();
    Operands rounded{low(of_keys ? x.q : scale(g, x.q, 1e-5)), low(of_keys ? scale(g, x.k, 1e-5) : x.k), low(x.v)};
    const Value scores = cast(g, products(g, rounded), DType::fp32);
    x.v = rounded.v;
    finish(low(softmax(g, scores)));
    testing::Tensors inputs = testing::random_inputs(g, testing::OpCase{Op::attention, "", nullptr}, 3);
    for (float& element : inputs.at(of_keys ? "k" : "q").as<float>()) element *= 0x1p18F;
    const HostTensor before = testing::run_graph(g, open_device("reference"), inputs).at("o");
    EXPECT_TRUE(recognise(g)) << "attention, with its scale where it was";
    const Node& attention = g.producer_node(*g.find_output("o"));
    EXPECT_EQ(attention.attributes.get<double>("scale"), 1.0);
    const HostTensor after = testing::run_graph(g, open_device("reference"), inputs).at("o");
    EXPECT_LT(testing::relative_error(after, before), 2e-2);
  }
}

TEST_F(RecogniseAttentionNearMiss, leaves_scores_rounded_below_the_type_of_their_operands) {
  finish(softmax(g, cast(g, cast(g, scaled_products(g, x), DType::bf16), DType::fp32)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_a_softmax_in_double) {
  finish(cast(g, softmax(g, cast(g, scaled_products(g, x), DType::fp64)), DType::fp32));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_products_of_two_types) {
  x.q = cast(g, x.q, DType::bf16);
  x.k = cast(g, x.k, DType::bf16);
  finish(softmax(g, cast(g, products(g, x), DType::fp32)));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_products_of_fp32_before_one_of_a_low_type) {
  x.v = cast(g, x.v, DType::bf16);
  finish(cast(g, softmax(g, scaled_products(g, x)), DType::bf16));
  expect_left();
}

TEST_F(RecogniseAttentionNearMiss, leaves_two_products_without_a_softmax) {
  finish(scaled_products(g, x));
  expect_left();
}

}  // namespace
}  // namespace ridgepoint
