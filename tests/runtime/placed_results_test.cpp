// Programs whose kernels store results in another order of dimensions compute and show the same values.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/layout.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/activity.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 3, kRows = 5, kWidth = 8;

HostTensor counted(const TensorType& type) {
  HostTensor tensor(type);
  float next = 0;
  for (float& x : tensor.as<float>()) x = next += 0.125F;
  return tensor;
}

// Of each value [B,H,S,D]: its rows as [B S, H D].
Value joined(Graph& graph, Value heads) {
  return reshape(graph, transpose(graph, heads, {0, 2, 1, 3}), Shape{kBatch * kRows, kHeads * kWidth});
}

class PlacedResultsOn : public ::testing::TestWithParam<const char*> {
 protected:
  // An elementwise op, a reduction that keeps its dimensions, and a fused node where the device has one.
  Graph graph() const {
    Graph graph;
    const Value x = input(graph, "x", {DType::fp32, {kBatch, kHeads, kRows, kWidth}}, Role::data);
    const Value y = exp(graph, neg(graph, x));
    const Value wide = input(graph, "wide", {DType::fp32, {kBatch, kHeads, kRows, 2, kWidth}}, Role::data);
    const Value sum = reduce_sum(graph, wide, {3}, false);
    graph.set_phase(Phase::loss);  // so that no reader is fused with what it reads
    graph.add_output("y", neg(graph, joined(graph, y)));
    graph.add_output("sum", neg(graph, joined(graph, sum)));
    return graph;
  }
  std::size_t placed(const Graph& compiled) const {
    std::size_t count = 0;
    for (const NodeId id : compiled.order()) {
      const Node& node = compiled.node(id);
      if (result_order(node, 0, compiled.type(node.outputs[0]).shape.rank())) ++count;
    }
    return count;
  }
  Tensors run(Compile level, bool places, std::size_t placed_results) {
    ProgramOptions options;
    options.compile.level = level;
    if (!places) options.compile.skip = {"place_results"};
    Program program(graph(), device_, options);
    EXPECT_EQ(placed(program.graph()), placed_results) << print_graph(program.graph());
    for (const NodeId id : program.graph().inputs()) {
      const Node& node = program.graph().node(id);
      program.write_input(input_name(node), counted(program.graph().type(node.outputs[0])));
    }
    program.run();
    return {{"y", program.read_output("y")}, {"sum", program.read_output("sum")}};
  }

  std::shared_ptr<Device> device_ = open_device(GetParam());
};

TEST_P(PlacedResultsOn, have_equal_bits) {
  const bool places_sums = std::string(GetParam()) != "reference";
  for (const Compile level : {Compile::off, Compile::fuse}) {
    const Tensors expected = run(level, false, 0);
    const Tensors found = run(level, true, places_sums ? 2 : 1);
    for (const auto& [name, tensor] : expected) EXPECT_EQ(found.at(name).data, tensor.data) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PlacedResultsOn, ::testing::Values("cpu", "reference"),
                         [](const auto& instance) { return std::string(instance.param); });

// Reads a result and its views after its launch, while other kernels still need it.
class ViewReader : public LaunchObserver {
 public:
  ViewReader(Program& program, Op producer) : program_(program), producer_(producer) {}
  void before_launch(std::uint32_t) override {}
  void after_launch(std::uint32_t launch) override {
    const Graph& graph = program_.graph();
    const Node& node = graph.node(program_.launches()[launch].node);
    if (node.op != producer_) return;
    values.emplace("result", program_.read_value(node.outputs[0]));
    for (const NodeId id : graph.order()) {
      const Node& view = graph.node(id);
      if (op_class(view.op) == OpClass::view && view.inputs[0] == node.outputs[0])
        values.emplace(std::string(name(view.op)), program_.read_value(view.outputs[0]));
    }
  }

  Tensors values;

 private:
  Program& program_;
  Op producer_;
};

TEST(ReadValue, gathers_values_by_their_strides) {
  Graph graph;
  const TensorType type{DType::fp32, {kBatch, kHeads, kRows, kWidth}};
  const Value y = exp(graph, input(graph, "x", type, Role::data));
  graph.add_output("joined", neg(graph, joined(graph, y)));
  graph.add_output("flipped", neg(graph, flip(graph, y, 2)));
  graph.add_output("repeated", neg(graph, broadcast(graph, y, Shape{2, kBatch, kHeads, kRows, kWidth})));
  ProgramOptions options;
  options.compile.level = Compile::off;
  Program program(std::move(graph), open_device("reference"), options);
  program.write_input("x", counted(type));
  ViewReader reader(program, Op::exp);
  program.observe(&reader);
  program.run();

  const auto at = [&](const char* value, std::initializer_list<std::pair<std::int64_t, std::int64_t>> index) {
    std::int64_t element = 0;
    for (const auto& [i, size] : index) element = element * size + i;
    return reader.values.at(value).as<float>()[static_cast<std::size_t>(element)];
  };
  ASSERT_EQ(reader.values.size(), 4U) << print_graph(program.graph());
  const HostTensor x = counted(type);
  std::size_t next = 0;
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t s = 0; s < kRows; ++s) {
        for (std::int64_t d = 0; d < kWidth; ++d) {
          const auto expected = static_cast<float>(std::exp(static_cast<double>(x.as<float>()[next++])));
          const std::pair in_b{b, kBatch}, in_h{h, kHeads}, in_s{s, kRows}, in_d{d, kWidth};
          EXPECT_EQ(at("result", {in_b, in_h, in_s, in_d}), expected);
          EXPECT_EQ(at("transpose", {in_b, in_s, in_h, in_d}), expected);
          EXPECT_EQ(at("flip", {in_b, in_h, {kRows - 1 - s, kRows}, in_d}), expected);
          EXPECT_EQ(at("broadcast", {{1, 2}, in_b, in_h, in_s, in_d}), expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
