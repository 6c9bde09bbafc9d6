// Generated kernels that make codes of 8 bits of what they compute, each row with a scale of its own: products have the
// values that they have where another kernel quantises. On a GPU, and on the processor.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/card.h"
#include "backends/cuda/generator/emulated_device.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

// SwiGLU before a product, and in another phase its derivative, whose results lie side by side, before the three
// products of backward.
Graph products_of_swiglu(std::int64_t rows, std::int64_t columns) {
  Graph graph;
  const std::int64_t width = std::min<std::int64_t>(16, columns / 2);
  const auto operand = [&](const char* name, const Shape& shape) {
    return input(graph, name, {DType::bf16, shape}, Role::data);
  };
  const auto product = [&](Value left, Value right, const char* left_codes) {
    return make_value(graph, Op::matmul, {left, right},
                      {{"compute", "fp8"}, {"left_codes", left_codes}, {"result", "fp32"}});
  };
  const std::vector<Value> halves = split(graph, operand("gate and up", {rows, 2 * columns}), 1, {columns, columns});
  const Value gate = halves[0];
  const Value up = halves[1];
  const Value activation = silu(graph, gate);
  const Value swiglu = mul(graph, activation, up);
  const Value down = operand("down", {columns, width});
  graph.add_output("y", product(swiglu, down, "e4m3"));
  graph.set_phase(Phase::backward);
  const Value gradient = operand("gradient", {rows, columns});
  const Value of_activation = mul(graph, gradient, up);
  const Value of_gate = graph.node(make_node(graph, Op::silu_backward, {of_activation, gate})).outputs[0];
  const Value activation_again = silu(graph, gate);
  const Value of_up = mul(graph, gradient, activation_again);
  const Value of_both = concat(graph, {of_gate, of_up}, 1);
  const Value of_result = transpose(graph, operand("dy", {rows, width}), {1, 0});
  graph.add_output("down", product(of_result, swiglu, "e5m2"));
  const Value weight = operand("weight", {2 * columns, width});
  graph.add_output("dx", product(of_both, weight, "e5m2"));
  const Value turned = transpose(graph, of_both, {1, 0});
  graph.add_output("weight", product(turned, operand("x", {rows, width}), "e5m2"));
  return graph;
}

constexpr std::pair<std::int64_t, std::int64_t> kMatrices[] = {{144, 80}, {48, 256}, {32, 1536}, {16, 8960}, {5, 7}};

// The results for each shape.
std::vector<Tensors> products_on(const std::shared_ptr<Device>& device, const std::vector<std::string>& skip) {
  std::vector<Tensors> results;
  for (const auto& [rows, columns] : kMatrices) {
    Graph graph = products_of_swiglu(rows, columns);
    const Tensors inputs = testing::random_inputs(graph, testing::OpCase{Op::input, "", nullptr}, 5);
    CompileOptions options{.mode = Mode::forward, .level = Compile::fuse};
    options.skip = skip;
    Program program(std::move(graph), device, {.compile = options});
    const auto makes_codes = [&](NodeId id) {
      const Node& node = program.graph().node(id);
      return node.body != nullptr && node.body->graph.name.ends_with("_codes");
    };
    EXPECT_EQ(std::ranges::count_if(program.graph().order(), makes_codes), skip.empty() ? 2 : 0);
    results.push_back(testing::run(program, inputs));
  }
  return results;
}

// Codes of numbers that were rounded to bf16 first differ from those of the numbers in few places.
void expect_same_products(const std::shared_ptr<Device>& device) {
  const std::vector<Tensors> expected = products_on(device, {"fuse_row_codes"});
  const std::vector<Tensors> found = products_on(device, {});
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].size(), 4U);
    for (const auto& [name, tensor] : found[i]) {
      EXPECT_LT(testing::relative_error(convert(tensor, DType::fp64), convert(expected[i].at(name), DType::fp64)), 4e-2)
          << name << ' ' << kMatrices[i].first << ' ' << kMatrices[i].second;
    }
  }
}

class OnCardRowCodes : public testing::OnCard {};
TEST_F(OnCardRowCodes, of_kernels_make_the_products_of_those_of_matrices) { expect_same_products(device_); }

using GeneratedRowCodes = testing::Emulated;
TEST_F(GeneratedRowCodes, make_the_products_of_those_of_matrices) {
  testing::Emulator emulator(132, false);
  const auto device = std::make_shared<testing::EmulatedDevice>(emulator);
  products_on(device, {});
  products_on(device, {"fuse_row_codes"});
  emulator.build();
  expect_same_products(std::make_shared<testing::EmulatedDevice>(emulator));
}

}  // namespace
}  // namespace ridgepoint
