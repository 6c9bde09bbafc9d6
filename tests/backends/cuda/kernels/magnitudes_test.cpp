// Generated kernels that also find the largest magnitudes of what they make: codes of 8 bits and scales have the bits
// that they have where quantise searches the matrix itself. On a GPU, and on the processor.
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

// A norm, whose rows have one magnitude each; in another phase SwiGLU and its derivative, of which segments of rows
// have, and whose results lie side by side; and the derivative of a norm, which sums over rows too.
Graph quantising_what_kernels_make(std::int64_t rows, std::int64_t columns) {
  Graph graph;
  const auto operand = [&](const char* name, DType dtype, const Shape& shape) {
    return input(graph, name, {dtype, shape}, Role::data);
  };
  const Shape shape{rows, columns};
  const Value weight = operand("weight", DType::fp32, {columns});
  const Value widened = cast(graph, operand("x", DType::bf16, shape), DType::fp32);
  const auto [normed, r] = rms_norm(graph, widened, weight, 1e-5);
  const Value of_norm = cast(graph, normed, DType::bf16);
  graph.set_phase(Phase::loss);
  const Value gate = operand("gate", DType::bf16, shape);
  const Value other = operand("other", DType::bf16, shape);
  const Value of_other = mul(graph, silu(graph, gate), other);
  const NodeId derivative = make_node(graph, Op::silu_backward, {other, gate});
  const Value of_both = concat(graph, {graph.node(derivative).outputs[0], of_other}, 1);
  graph.set_phase(Phase::backward);
  const Value gradient = cast(graph, operand("gradient", DType::bf16, shape), DType::fp32);
  const NodeId backward = make_node(graph, Op::rms_norm_backward, {gradient, widened, weight, r});
  const std::vector<Value> gradients = graph.node(backward).outputs;
  const std::pair<std::string, Value> made[] = {
      {"norm", of_norm}, {"swiglu", of_both}, {"derivative", cast(graph, gradients[0], DType::bf16)}};
  for (const auto& [name, value] : made) {
    const Quantised codes = quantise(graph, value, DType::e5m2, {.rows = true, .columns = true});
    graph.add_output(name + ".rows", codes.rows);
    graph.add_output(name + ".columns", codes.columns);
    graph.add_output(name + ".scale", codes.scale);
  }
  graph.add_output("weight_gradient", gradients[1]);
  return graph;
}

constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {{144, 80}, {48, 256}, {16, 1536}, {4096, 128}};

// bf16 numbers that are not finite.
constexpr std::uint16_t kInfinity = 0x7f80, kNaN = 0x7fc0;

// The results for each shape; an element of the first row is `poison`, unless that is 0.
std::vector<Tensors> results_on(const std::shared_ptr<Device>& device, const std::vector<std::string>& skip,
                                std::uint16_t poison = 0) {
  std::vector<Tensors> results;
  for (const auto& [rows, columns] : kShapes) {
    Graph graph = quantising_what_kernels_make(rows, columns);
    Tensors inputs = testing::random_inputs(graph, testing::OpCase{Op::input, "", nullptr}, 5);
    if (poison != 0) {
      for (const char* name : {"x", "gate", "gradient"}) inputs.at(name).as<std::uint16_t>()[3] = poison;
    }
    CompileOptions options{.mode = Mode::forward, .level = Compile::fuse};
    options.skip = skip;
    Program program(std::move(graph), device, {.compile = options});
    const auto finds_magnitudes = [&](NodeId id) {
      const Node& node = program.graph().node(id);
      return node.body != nullptr && node.body->graph.name.ends_with("_magnitudes");
    };
    EXPECT_EQ(std::ranges::count_if(program.graph().order(), finds_magnitudes), skip.empty() ? 3 : 0);
    results.push_back(testing::run(program, inputs));
  }
  return results;
}

void expect_same_bits(const std::shared_ptr<Device>& device) {
  for (const std::uint16_t poison : {std::uint16_t{0}, kInfinity, kNaN}) {
    const std::vector<Tensors> expected = results_on(device, {"fuse_magnitudes"}, poison);
    const std::vector<Tensors> found = results_on(device, {}, poison);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].size(), 10U);
      for (const auto& [name, tensor] : found[i]) {
        EXPECT_EQ(tensor.data, expected[i].at(name).data)
            << name << ' ' << kShapes[i].first << ' ' << kShapes[i].second << " with " << poison;
      }
    }
  }
}

class OnCardMagnitudes : public testing::OnCard {};
TEST_F(OnCardMagnitudes, that_kernels_find_give_the_same_codes) { expect_same_bits(device_); }

using GeneratedMagnitudes = testing::Emulated;
TEST_F(GeneratedMagnitudes, give_the_same_codes) {
  testing::Emulator emulator(132, false);
  const auto device = std::make_shared<testing::EmulatedDevice>(emulator);
  results_on(device, {});
  results_on(device, {"fuse_magnitudes"});
  emulator.build();
  expect_same_bits(std::make_shared<testing::EmulatedDevice>(emulator));
}

}  // namespace
}  // namespace ridgepoint
