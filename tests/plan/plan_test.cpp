#include "plan/plan.h"

#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/ops/optimizer.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

struct Plan : ::testing::Test {
  Graph graph;
  Value x = input(graph, "x", {DType::fp32, {4, 6}}, Role::data);

  static std::size_t step_of(const ExecutionPlan& plan, NodeId node) {
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      if (plan.steps[i].node == node) return i;
    }
    return SIZE_MAX;
  }
};

TEST_F(Plan, frees_a_buffer_after_its_last_use_and_not_before) {
  const Value a = exp(graph, x);
  const Value b = neg(graph, a);
  const Value c = add(graph, a, b);
  graph.add_output("c", c);
  const ExecutionPlan plan = make_plan(graph);
  ASSERT_EQ(plan.steps.size(), 3U);
  const BufferId buffer_a = plan.values[a.id].buffer;
  EXPECT_TRUE(plan.steps[1].release.empty());
  EXPECT_EQ(plan.steps[2].release, (std::vector<BufferId>{buffer_a, plan.values[b.id].buffer}));
  EXPECT_TRUE(plan.buffers[plan.values[c.id].buffer].output);
}

TEST_F(Plan, lets_a_result_take_over_the_storage_of_an_operand_only_where_that_is_asked) {
  const Value a = exp(graph, x);
  const Value b = neg(graph, a);
  graph.add_output("b", b);
  const ExecutionPlan apart = make_plan(graph);
  EXPECT_NE(apart.values[a.id].buffer, apart.values[b.id].buffer);
  const ExecutionPlan shared = make_plan(graph, {.takes_over = true});
  EXPECT_EQ(shared.values[a.id].buffer, shared.values[b.id].buffer);
  EXPECT_NE(shared.values[a.id].buffer, shared.values[x.id].buffer) << "an input keeps its value";
  EXPECT_TRUE(shared.buffers[shared.values[b.id].buffer].output);
  EXPECT_TRUE(shared.steps[1].allocate.empty());
  EXPECT_TRUE(shared.steps[1].release.empty());
}

TEST_F(Plan, lets_no_result_take_over_what_is_read_later_or_is_an_output) {
  const Value a = exp(graph, x);
  const Value b = neg(graph, a);
  const Value c = add(graph, a, b);  // over a or b
  const Value d = exp(graph, c);
  graph.add_output("c", c);
  graph.add_output("d", d);
  const ExecutionPlan plan = make_plan(graph, {.takes_over = true});
  const auto buffer = [&](Value value) { return plan.values[value.id].buffer; };
  EXPECT_NE(buffer(a), buffer(b));
  EXPECT_EQ(buffer(c), buffer(a));
  EXPECT_NE(buffer(d), buffer(c));
}

TEST_F(Plan, lets_no_result_take_over_what_its_node_reads_in_another_order_or_dtype) {
  const Value square = exp(graph, input(graph, "s", {DType::fp32, {6, 6}}, Role::data));
  const Value turned = neg(graph, transpose(graph, square, {1, 0}));
  const Value symmetric = add(graph, turned, transpose(graph, turned, {1, 0}));
  const Value integers = cast(graph, symmetric, DType::int32);
  graph.add_output("y", integers);
  const ExecutionPlan plan = make_plan(graph, {.takes_over = true});
  for (const Value value : {turned, symmetric, integers}) {
    const PlanStep& step = plan.steps[step_of(plan, graph.producer(value))];
    EXPECT_EQ(step.allocate.size(), 1U) << step.node.id;
  }
}

TEST_F(Plan, lets_a_softmax_take_over_its_scores_but_no_reduction_its_operand) {
  const Graph softmax = parse_graph(R"(graph "g"
%0:fp32[4,6] = input() {name="x", role="data"} @forward "" ""
%1:fp32[4,6] = exp(%0) @forward "" ""
%2:fp32[4,6] = fused(%1) @forward "" ""
body "fused_softmax"
%0:fp32[4,6] = input() {name="0", role="data"} @forward "" ""
%1:fp32[4,1] = reduce_max(%0) {axes=[1], keep_dims=true} @forward "" ""
%2:fp32[4,6] = broadcast(%1) {shape=[4,6]} @forward "" ""
%3:fp32[4,6] = sub(%0, %2) @forward "" ""
%4:fp32[4,6] = exp(%3) @forward "" ""
%5:fp32[4,1] = reduce_sum(%4) {axes=[1], keep_dims=true} @forward "" ""
%6:fp32[4,6] = broadcast(%5) {shape=[4,6]} @forward "" ""
%7:fp32[4,6] = div(%4, %6) @forward "" ""
output "0" %7
end
%3:fp32[4] = reduce_sum(%2) {axes=[1], keep_dims=false} @forward "" ""
output "sums" %3
)");
  const ExecutionPlan plan = make_plan(softmax, {.takes_over = true});
  EXPECT_EQ(plan.values[2].buffer, plan.values[1].buffer);
  EXPECT_EQ(plan.steps.back().allocate.size(), 1U);
}

TEST_F(Plan, lets_the_gradient_of_logits_take_over_the_logits) {
  const Value logits = exp(graph, x);
  const Value targets = input(graph, "targets", {DType::int64, {4}}, Role::data);
  const auto [losses, log_sum_exps] = cross_entropy(graph, logits, targets);
  const NodeId backward = make_node(graph, Op::cross_entropy_backward, {losses, logits, targets, log_sum_exps});
  graph.add_output("gradient", graph.node(backward).outputs[0]);
  const ExecutionPlan plan = make_plan(graph, {.takes_over = true});
  EXPECT_EQ(plan.values[graph.node(backward).outputs[0].id].buffer, plan.values[logits.id].buffer);
}

TEST_F(Plan, keeps_storage_while_a_view_of_it_is_read) {
  const Value a = exp(graph, x);
  const Value turned = transpose(graph, a, {1, 0});
  const Value b = neg(graph, x);
  graph.add_output("c", matmul(graph, b, turned));
  const ExecutionPlan plan = make_plan(graph);
  EXPECT_EQ(plan.values[turned.id].buffer, plan.values[a.id].buffer);
  EXPECT_EQ(plan.steps.back().release.size(), 2U);
  EXPECT_EQ(plan.values[turned.id].layout.strides[0], 1);
}

TEST_F(Plan, frees_a_result_that_nobody_reads_at_once) {
  const Value weight = input(graph, "w", {DType::fp32, {6}}, Role::parameter);
  const auto [y, r] = rms_norm(graph, x, weight, 1e-5);
  graph.add_output("y", exp(graph, y));
  const ExecutionPlan plan = make_plan(graph);
  EXPECT_EQ(plan.steps[0].release, (std::vector<BufferId>{plan.values[r.id].buffer}));
}

TEST_F(Plan, gives_an_immediate_operand_no_buffer) {
  graph.add_output("y", mul(graph, x, broadcast(graph, constant(graph, 2.0, DType::fp32), Shape{4, 6})));
  const ExecutionPlan plan = make_plan(graph);
  EXPECT_EQ(plan.steps[0].inputs[1].buffer, kNoBuffer);
  EXPECT_EQ(plan.steps[0].inputs[1].layout.immediate, 2.0);
}

TEST_F(Plan, offsets_a_flipped_view_to_its_first_element) {
  const Value flipped = flip(graph, x, 1);
  graph.add_output("y", exp(graph, flipped));
  const ExecutionPlan plan = make_plan(graph);
  EXPECT_EQ(plan.steps[0].inputs[0].offset_bytes, 5 * sizeof(float));
  EXPECT_EQ(plan.steps[0].inputs[0].layout.strides[1], -1);
}

TEST_F(Plan, writes_updates_into_the_storage_of_what_they_update) {
  const Value moment = input(graph, "m", {DType::fp32, {4, 6}}, Role::state);
  const Value second = input(graph, "v", {DType::fp32, {4, 6}}, Role::state);
  const Value step = input(graph, "t", {DType::fp32, {}}, Role::state);
  const Value parameter = input(graph, "p", {DType::fp32, {4, 6}}, Role::parameter);
  const Value next = shift(graph, step, 1.0);
  graph.add_update(step, next);
  const std::vector<Value> updated =
      optimizer_step(graph, {}, {.step = next, .parameter = parameter, .gradient = x, .states = {moment, second}});
  graph.add_update(parameter, updated[0]);
  graph.add_update(moment, updated[1]);
  graph.add_update(second, updated[2]);
  const ExecutionPlan plan = make_plan(graph);
  EXPECT_EQ(plan.values[updated[0].id].buffer, plan.values[parameter.id].buffer);
  EXPECT_EQ(plan.values[updated[1].id].buffer, plan.values[moment.id].buffer);
  EXPECT_EQ(plan.values[next.id].buffer, plan.values[step.id].buffer);
  for (const PlanStep& planned : plan.steps) EXPECT_TRUE(planned.allocate.empty());
}

TEST_F(Plan, refuses_an_update_that_cannot_be_made_in_place) {
  const Value square = input(graph, "s", {DType::fp32, {6, 6}}, Role::state);
  graph.add_update(square, matmul(graph, square, square));
  EXPECT_THROW(make_plan(graph), Error);
}

TEST_F(Plan, refuses_to_update_from_a_transposed_read_of_the_same_storage) {
  const Value square = input(graph, "s", {DType::fp32, {6, 6}}, Role::state);
  graph.add_update(square, exp(graph, transpose(graph, square, {1, 0})));
  EXPECT_THROW(make_plan(graph), Error);
}

TEST_F(Plan, tells_activations_gradients_and_temporaries_apart) {
  const Value weight = input(graph, "w", {DType::fp32, {6, 5}}, Role::parameter);
  const Value product = matmul(graph, x, weight);
  const Value saved = exp(graph, product);
  const Value loss = reduce_sum(graph, saved, {0, 1});
  const Value gradient = differentiate(graph, loss, std::vector{weight})[0];
  graph.add_output("loss", loss);
  graph.add_output("grad.w", gradient, OutputRole::gradient, "w");
  const ExecutionPlan plan = make_plan(graph);
  const auto category = [&](Value value) { return plan.buffers[plan.values[value.id].buffer].category; };
  EXPECT_EQ(category(x), MemoryCategory::data);
  EXPECT_EQ(category(weight), MemoryCategory::parameter);
  EXPECT_EQ(category(product), MemoryCategory::temporary);
  EXPECT_EQ(category(saved), MemoryCategory::activation);
  EXPECT_EQ(category(gradient), MemoryCategory::gradient);
  ASSERT_TRUE(plan.backward_begin.has_value());
  EXPECT_EQ(*plan.backward_begin, step_of(plan, graph.producer(loss)) + 1);
}

TEST(Layout, reshapes_by_strides_exactly_when_they_exist) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {4, 6, 5}}, Role::data);
  const auto layout_of = [&](Value source, const Shape& shape) {
    const Value made = reshape(graph, source, shape);
    std::vector<ValueLayout> layouts = value_layouts(graph);
    return layouts[made.id].layout;
  };
  EXPECT_TRUE(layout_of(x, Shape{24, 5}).is_dense());
  const TensorLayout split = layout_of(transpose(graph, x, {2, 0, 1}), Shape{5, 2, 2, 6});
  EXPECT_EQ(split.strides[0], 1);
  EXPECT_EQ(split.strides[1], 60);
  EXPECT_EQ(split.strides[2], 30);
  EXPECT_EQ(split.strides[3], 5);
  EXPECT_EQ(layout_of(transpose(graph, x, {2, 0, 1}), Shape{5, 24}).strides[1], 5);
  EXPECT_TRUE(layout_of(x, Shape{1, 4, 1, 30, 1}).is_dense());
  EXPECT_THROW(layout_of(transpose(graph, x, {1, 0, 2}), Shape{24, 5}), Error);
}

TEST_F(Plan, writes_the_operands_of_concat_in_its_storage) {
  const Value a = exp(graph, x);
  const Value b = neg(graph, x);
  const Value both = concat(graph, {a, b}, 1);
  graph.add_output("y", tanh(graph, both));
  const ExecutionPlan plan = make_plan(graph);
  ASSERT_EQ(plan.steps.size(), 3U);
  const BufferId buffer = plan.values[both.id].buffer;
  EXPECT_EQ(plan.buffers[buffer].bytes, 4U * 12 * 4);
  EXPECT_EQ(plan.steps[0].allocate, std::vector<BufferId>{buffer});
  EXPECT_TRUE(plan.steps[1].allocate.empty());
  EXPECT_EQ(plan.steps[0].outputs[0].buffer, buffer);
  EXPECT_EQ(plan.steps[1].outputs[0].buffer, buffer);
  EXPECT_EQ(plan.steps[1].outputs[0].offset_bytes, 6U * 4);
  EXPECT_EQ(plan.steps[1].outputs[0].layout.strides[0], 12);
  EXPECT_EQ(plan.steps[2].release, std::vector<BufferId>{buffer});
}

TEST_F(Plan, places_a_concat_within_another) {
  const Value inner = concat(graph, {exp(graph, x), neg(graph, x)}, 0);
  const Value outer = concat(graph, {tanh(graph, inner), sigmoid(graph, concat(graph, {inner}, 0))}, 1);
  graph.add_output("y", outer);
  EXPECT_THROW(make_plan(graph), Error);  // `inner` has two readers
  Graph nested;
  const Value y = input(nested, "x", {DType::fp32, {4, 6}}, Role::data);
  const Value parts = concat(nested, {exp(nested, y), neg(nested, y)}, 0);
  const Value whole = concat(nested, {tanh(nested, input(nested, "z", {DType::fp32, {8, 2}}, Role::data)), parts}, 1);
  nested.add_output("y", whole);
  const ExecutionPlan plan = make_plan(nested);
  EXPECT_EQ(plan.values[parts.id].buffer, plan.values[whole.id].buffer);
  EXPECT_EQ(plan.steps[1].outputs[0].offset_bytes, (4U * 8 + 2) * 4);
}

TEST_F(Plan, reads_a_part_where_it_lies) {
  const std::vector<Value> parts = split(graph, exp(graph, x), 1, {2, 4});
  graph.add_output("y", neg(graph, parts[1]));
  const ExecutionPlan plan = make_plan(graph);
  EXPECT_EQ(plan.steps[1].inputs[0].offset_bytes, 2U * 4);
  EXPECT_EQ(plan.steps[1].inputs[0].layout.strides[0], 6);
  EXPECT_EQ(plan.steps[1].inputs[0].buffer, plan.steps[0].outputs[0].buffer);
}

TEST_F(Plan, keeps_what_a_collective_uses_until_a_step_waits_for_it) {
  const Value a = exp(graph, x);
  const Value part = reduce_scatter(graph, {a}, 2)[0];  // its result has a buffer of its own
  const Value b = neg(graph, x);
  const Value c = exp(graph, b);
  const Value d = exp(graph, part);
  graph.add_output("c", c);
  graph.add_output("d", d);
  const ExecutionPlan plan = make_plan(graph, {.takes_over = true});
  const std::size_t collective = step_of(plan, graph.producer(part));
  const std::size_t reader = step_of(plan, graph.producer(d));
  EXPECT_EQ(plan.steps[reader].waits, std::vector{collective});
  EXPECT_TRUE(plan.waits_at_end.empty());
  for (const Value used : {a, part}) {
    for (std::size_t i = 0; i < reader; ++i)
      EXPECT_THAT(plan.steps[i].release, Not(Contains(plan.values[used.id].buffer))) << i;
  }
  EXPECT_THAT(plan.steps[reader].release, Contains(plan.values[a.id].buffer));
}

TEST_F(Plan, frees_the_operands_of_collectives_of_which_few_may_be_in_flight) {
  std::vector<Value> operands, parts;
  for (int i = 0; i < 4; ++i) {
    operands.push_back(exp(graph, x));
    parts.push_back(reduce_scatter(graph, {operands.back()}, 2)[0]);
    graph.node(graph.producer(parts.back())).attributes.set("in_flight", std::int64_t{2});
    graph.add_output(std::to_string(i), parts.back());
  }
  const ExecutionPlan plan = make_plan(graph);
  const auto step = [&](int i) { return step_of(plan, graph.producer(parts[static_cast<std::size_t>(i)])); };
  EXPECT_TRUE(plan.steps[step(1)].waits.empty());
  EXPECT_EQ(plan.steps[step(2)].waits, std::vector{step(0)});
  EXPECT_EQ(plan.steps[step(3)].waits, std::vector{step(1)});
  EXPECT_EQ(plan.waits_at_end, (std::vector{step(2), step(3)}));
  EXPECT_THAT(plan.steps[step(2)].release, Contains(plan.values[operands[0].id].buffer));
}

TEST_F(Plan, waits_for_all_exposed_collectives_before_the_next_launch) {
  const std::vector<Value> operands = {exp(graph, x), exp(graph, x)};
  std::vector<Value> sums;
  for (const Value operand : operands) {
    sums.push_back(all_reduce(graph, {operand}, 2)[0]);
    graph.node(graph.producer(sums.back())).attributes.set("exposed", true);
    graph.add_output(std::to_string(sums.size()), sums.back());
  }
  const Value other = neg(graph, x);
  graph.add_output("other", other);
  const ExecutionPlan plan = make_plan(graph);
  const std::size_t first = step_of(plan, graph.producer(sums[0])), second = step_of(plan, graph.producer(sums[1]));
  EXPECT_TRUE(plan.steps[second].waits.empty());
  EXPECT_EQ(plan.steps[step_of(plan, graph.producer(other))].waits, (std::vector{first, second}));
}

// No launch behind the update waits for the sum, but another reader of the sum does, and the end of the update is also
// that of the sum.
TEST_F(Plan, lets_an_update_beside_others_wait_for_its_collectives_by_itself) {
  const Value parameter = input(graph, "parameter", {DType::fp32, {4, 6}}, Role::parameter);
  const Value moment = input(graph, "moment", {DType::fp32, {4, 6}}, Role::state);
  const Value second = input(graph, "second", {DType::fp32, {4, 6}}, Role::state);
  const Value step = input(graph, "step", {DType::fp32, {}}, Role::state);
  const Value operand = exp(graph, x);
  const Value sum = all_reduce(graph, {operand}, 2)[0];
  const std::vector<Value> updated =
      optimizer_step(graph, {}, {.step = step, .parameter = parameter, .gradient = sum, .states = {moment, second}});
  graph.node(graph.producer(updated[0])).attributes.set("beside", true);
  const Value other = neg(graph, x);
  graph.add_output("other", other);
  ExecutionPlan plan = make_plan(graph);
  const auto made = [&](Value value) { return step_of(plan, graph.producer(value)); };
  EXPECT_TRUE(plan.steps[made(updated[0])].waits.empty());
  EXPECT_EQ(plan.steps[made(updated[0])].own_waits, std::vector{made(sum)});
  EXPECT_TRUE(plan.steps[made(other)].waits.empty());
  EXPECT_EQ(plan.waits_at_end, (std::vector{made(sum), made(updated[0])}));

  const Value reader = neg(graph, updated[0]);
  graph.add_output("reader", reader);
  plan = make_plan(graph);
  EXPECT_EQ(plan.steps[made(reader)].waits, (std::vector{made(updated[0]), made(sum)}));
  EXPECT_THAT(plan.steps[made(reader)].release, Contains(plan.values[operand.id].buffer));
  EXPECT_TRUE(plan.waits_at_end.empty());

  graph.set_insertion_before(graph.producer(reader));
  const Value of_sum = neg(graph, sum);
  plan = make_plan(graph);
  EXPECT_EQ(plan.steps[made(of_sum)].waits, std::vector{made(sum)});
  EXPECT_EQ(plan.steps[made(reader)].waits, std::vector{made(updated[0])});
}

TEST_F(Plan, sums_over_ranks_in_the_storage_of_the_operand) {
  const Value a = exp(graph, x);
  const Value b = exp(graph, a);
  const std::vector<Value> sums = all_reduce(graph, {b, a}, 2);
  const Value c = neg(graph, x);
  graph.add_output("c", c);
  graph.add_output("sum", sums[0]);
  graph.add_output("other", sums[1]);
  const ExecutionPlan plan = make_plan(graph);
  EXPECT_EQ(plan.values[sums[0].id].buffer, plan.values[b.id].buffer);
  EXPECT_EQ(plan.values[sums[1].id].buffer, plan.values[a.id].buffer);
  EXPECT_EQ(plan.waits_at_end, std::vector{step_of(plan, graph.producer(sums[0]))});
}

TEST_F(Plan, lets_no_step_take_over_what_a_collective_may_still_read) {
  const Value a = exp(graph, x);
  const Value sum = all_reduce(graph, {a}, 2)[0];
  const Value b = neg(graph, a);  // the last reader of a, while the sum is made
  graph.add_output("b", b);
  graph.add_output("sum", sum);
  const ExecutionPlan plan = make_plan(graph, {.takes_over = true});
  EXPECT_NE(plan.values[b.id].buffer, plan.values[a.id].buffer);
  EXPECT_NE(plan.values[sum.id].buffer, plan.values[a.id].buffer);
}

}  // namespace
}  // namespace ridgepoint
