// Compares every derivative with central differences, in double precision on the reference back end.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

#include "backends/reference/reference_device.h"
#include "ops/rule.h"
#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/core/error.h"
#include "support/graphs/op_cases.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

using testing::op_cases;
using testing::OpCase;

class Vjp : public ::testing::TestWithParam<OpCase> {};

// A scalar loss: the sum over all floating outputs, with fixed unequal weights.
Value weighted_sum(Graph& graph) {
  Value total;
  const std::vector<Output> outputs(graph.outputs().begin(), graph.outputs().end());
  for (const Output& output : outputs) {
    const TensorType type = graph.type(output.value);
    if (!is_floating(type.dtype)) continue;
    const Value flat = reshape(graph, output.value, Shape{type.elements()});
    const Value weights = shift(graph, scale(graph, iota(graph, Shape{type.elements()}, 0, type.dtype), 0.37), -0.9);
    const Value sum = reduce_sum(graph, mul(graph, flat, weights), {0});
    total = total.valid() ? add(graph, total, sum) : sum;
  }
  return total;
}

double loss_of(Program& program, const Tensors& inputs) {
  for (const auto& [name, tensor] : inputs) program.write_input(name, tensor);
  program.run();
  return program.read_output("loss").as<double>()[0];
}

TEST_P(Vjp, agrees_with_central_differences) {
  const OpCase& op_case = GetParam();
  Graph graph = op_case.build(DType::fp64);
  const Value loss = weighted_sum(graph);
  graph.clear_outputs();
  graph.add_output("loss", loss);
  std::vector<Value> wrt;
  std::vector<std::string> names;
  for (const NodeId id : graph.inputs()) {
    const Node& node = graph.node(id);
    if (!is_floating(graph.type(node.outputs[0]).dtype)) continue;
    wrt.push_back(node.outputs[0]);
    names.push_back(node.attributes.get<std::string>("name"));
  }
  Tensors inputs = testing::random_inputs(graph, op_case, 7);
  const std::vector<Value> gradients = differentiate(graph, loss, wrt);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ(graph.type(gradients[i]), graph.type(wrt[i]));
    graph.add_output("grad." + names[i], gradients[i]);
  }
  Program program(std::move(graph), make_reference_device(), {.compile = {.verify = true}});
  const double at_inputs = loss_of(program, inputs);
  Tensors found;
  for (const std::string& name : names) found.emplace(name, program.read_output("grad." + name));

  for (const std::string& name : names) {
    const std::span<double> values = inputs.at(name).as<double>();
    const std::span<const double> analytic = found.at(name).as<double>();
    double scale_of_gradient = 0;
    for (const double g : analytic) scale_of_gradient = std::max(scale_of_gradient, std::fabs(g));
    const std::size_t stride = std::max<std::size_t>(1, values.size() / 40);  // samples the elements of large operands
    for (std::size_t i = 0; i < values.size(); i += stride) {
      const double centre = values[i];
      const double step = 1e-5 * std::max(1.0, std::fabs(centre));
      values[i] = centre + step;
      const double above = loss_of(program, inputs);
      values[i] = centre - step;
      const double below = loss_of(program, inputs);
      values[i] = centre;
      const double numeric = (above - below) / (2 * step);
      const double tolerance = 1e-6 * std::max({std::fabs(numeric), scale_of_gradient, 1e-3 * std::fabs(at_inputs)});
      EXPECT_NEAR(analytic[i], numeric, tolerance) << name << "[" << i << "]";
    }
  }
}

std::vector<OpCase> differentiable_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& op_case : op_cases()) {
    if (op_case.differentiable) cases.push_back(op_case);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(all_ops, Vjp, ::testing::ValuesIn(differentiable_cases()),
                         [](const auto& tested) { return tested.param.name; });

// Of transfers, tests/passes/memory/offload_states_test.cpp has the tests.
TEST(VjpCoverage, every_op_that_runs_on_one_rank_has_a_case) {
  std::set<Op> covered;
  for (const OpCase& op_case : op_cases()) covered.insert(op_case.op);
  for (const Op op : kAllOps) {
    EXPECT_NE(covered.contains(op), runs_beside(op)) << name(op);
  }
}

TEST(Differentiate, rope_rotates_gradients_by_the_negative_angle) {
  // <rope(x), g> = <x, rope_inverse(g)> with tables that are rotations.
  Graph graph;
  const Value x = input(graph, "x", {DType::fp64, {2, 5, 3, 8}}, Role::data);
  const Value g = input(graph, "g", {DType::fp64, {2, 5, 3, 8}}, Role::data);
  const Value c = input(graph, "c", {DType::fp64, {5, 4}}, Role::constant);
  const Value s = input(graph, "s", {DType::fp64, {5, 4}}, Role::constant);
  const Value loss = reduce_sum(graph, mul(graph, rope(graph, x, c, s, 1), g), {0, 1, 2, 3});
  const Value gradient = differentiate(graph, loss, std::vector{x})[0];
  graph.add_output("grad", gradient);
  graph.add_output("expected", rope(graph, g, c, s, 1, true));
  Tensors inputs = testing::random_inputs(graph, OpCase{Op::rope, "", nullptr}, 3);
  const Tensors outputs = testing::run_graph(std::move(graph), make_reference_device(), inputs);
  EXPECT_LT(testing::relative_error(outputs.at("grad"), outputs.at("expected")), 1e-15);
}

TEST(Differentiate, decomposes_rope_only_where_gradients_of_its_tables_are_needed) {
  for (const std::string_view by : {"x", "xcs", "xc", "xs", "c", "s"}) {
    SCOPED_TRACE(by);
    Graph graph;
    const Value x = input(graph, "x", {DType::bf16, {5, 4}}, Role::data);
    const Value c = input(graph, "c", {DType::fp32, {5, 2}}, Role::parameter);
    const Value s = input(graph, "s", {DType::fp32, {5, 2}}, Role::parameter);
    const Value loss = reduce_sum(graph, cast(graph, rope(graph, x, c, s, 0), DType::fp32), {0, 1});
    std::vector<Value> wrt;
    for (const char one : by) wrt.push_back(one == 'x' ? x : one == 'c' ? c : s);
    const std::vector<Value> gradients = differentiate(graph, loss, wrt);
    for (std::size_t i = 0; i < wrt.size(); ++i) EXPECT_EQ(graph.type(gradients[i]), graph.type(wrt[i]));
    const auto rotates_back = [&](NodeId id) {
      return graph.node(id).op == Op::rope && graph.node(id).phase == Phase::backward;
    };
    EXPECT_EQ(std::ranges::count_if(graph.order(), rotates_back), by == "x" ? 1 : 0);
  }
}

TEST(Differentiate, stops_at_detach) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp64, {3}}, Role::data);
  const Value loss = reduce_sum(graph, mul(graph, x, detach(graph, x)), {0});
  const Value gradient = differentiate(graph, loss, std::vector{x})[0];
  graph.add_output("grad", gradient);
  HostTensor value({DType::fp64, {3}});
  value.as<double>()[1] = 5.0;
  const Tensors outputs = testing::run_graph(std::move(graph), make_reference_device(), {{"x", value}});
  EXPECT_EQ(outputs.at("grad").as<double>()[1], 5.0);  // not 10
}

TEST(Differentiate, gives_zeros_for_what_the_loss_does_not_use) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp64, {2, 3}}, Role::data);
  const Value unused = input(graph, "unused", {DType::fp64, {4}}, Role::data);
  const Value loss = reduce_sum(graph, x, {0, 1});
  const std::vector<Value> gradients = differentiate(graph, loss, std::vector{x, unused});
  graph.add_output("grad", gradients[1]);
  const Tensors outputs = testing::run_graph(std::move(graph), make_reference_device(), {});
  EXPECT_EQ(outputs.at("grad").type, (TensorType{DType::fp64, {4}}));
  EXPECT_EQ(outputs.at("grad").as<double>()[3], 0.0);
}

TEST(Differentiate, sums_the_gradients_of_every_use) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp64, {2}}, Role::data);
  const Value loss = reduce_sum(graph, add(graph, mul(graph, x, x), scale(graph, x, 3.0)), {0});
  graph.add_output("grad", differentiate(graph, loss, std::vector{x})[0]);
  HostTensor value({DType::fp64, {2}});
  value.as<double>()[0] = 2.0;
  const Tensors outputs = testing::run_graph(std::move(graph), make_reference_device(), {{"x", value}});
  EXPECT_EQ(outputs.at("grad").as<double>()[0], 7.0);
  EXPECT_EQ(outputs.at("grad").as<double>()[1], 3.0);
}

TEST(Differentiate, marks_new_nodes_as_backward_and_keeps_the_scope) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp64, {2}}, Role::data);
  graph.set_scope("layer");
  const Value y = exp(graph, x);
  graph.set_scope("");
  const Value loss = reduce_sum(graph, y, {0});
  const Value gradient = differentiate(graph, loss, std::vector{x})[0];
  const Node& node = graph.producer_node(gradient);
  EXPECT_EQ(node.phase, Phase::backward);
  EXPECT_EQ(graph.scope_name(node), "layer");
  EXPECT_EQ(graph.phase(), Phase::forward);
}

TEST(Differentiate, refuses_a_loss_that_is_not_a_scalar) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp64, {2}}, Role::data);
  EXPECT_THROW(differentiate(graph, x, std::vector{x}), Error);
}

TEST(Differentiate, takes_the_gradient_of_a_result_as_a_value) {
  const auto build = [](bool by_sum) {
    Graph graph;
    const TensorType type{DType::fp64, {3, 4}};
    const Value x = input(graph, "x", type, Role::data);
    const Value g = input(graph, "g", type, Role::data);
    const Value y = mul(graph, exp(graph, x), x);
    const std::vector<Value> gradients =
        by_sum ? differentiate(graph, reduce_sum(graph, mul(graph, y, g), {0, 1}), std::array{x})
               : differentiate(graph, y, g, std::array{x});
    graph.add_output("grad.x", gradients[0]);
    return graph;
  };
  Tensors inputs;
  for (const char* name : {"x", "g"}) {
    HostTensor tensor(TensorType{DType::fp64, {3, 4}});
    double value = name[0] == 'x' ? -0.7 : 1.3;
    for (double& element : tensor.as<double>()) element = value += 0.17;
    inputs.emplace(name, std::move(tensor));
  }
  const auto gradient = [&](bool by_sum) {
    return testing::run_graph(build(by_sum), make_reference_device({}), inputs).at("grad.x");
  };
  EXPECT_LT(testing::relative_error(gradient(false), gradient(true)), 1e-15);
}

TEST(Differentiate, refuses_a_gradient_of_another_type) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp64, {3}}, Role::data);
  const Value g = input(graph, "g", {DType::fp64, {4}}, Role::data);
  const Value y = exp(graph, x);
  EXPECT_THROW(differentiate(graph, y, g, std::array{x}), Error);
}

}  // namespace
}  // namespace ridgepoint
