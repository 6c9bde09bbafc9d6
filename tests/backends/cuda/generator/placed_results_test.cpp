// Generated kernels that store results in another order of dimensions, without a GPU.
#include <gtest/gtest.h>

#include "backends/cuda/generator/emulated_device.h"
#include "ops/layout.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/agreement.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 3, kRows = 40, kWidth = 16;

// Heads [B,H,S,D] as rows [B S, H D].
Value joined(Graph& graph, Value heads) {
  return reshape(graph, transpose(graph, heads, {0, 2, 1, 3}), Shape{kBatch * kRows, kHeads * kWidth});
}

// An elementwise op, one of a transposed operand, a reduction, a composite over rows, and a sum over rows, of each of
// which the reader needs the heads in rows.
Graph heads(DType dtype) {
  Graph graph;
  const Value x = input(graph, "x", {dtype, {kBatch, kHeads, kRows, kWidth}}, Role::data);
  const Value turned =
      transpose(graph, input(graph, "turned", {dtype, {kBatch, kHeads, kWidth, kRows}}, Role::data), {0, 1, 3, 2});
  const Value wide = input(graph, "wide", {dtype, {kBatch, kHeads, kRows, 5, kWidth}}, Role::data);
  const Value elements = exp(graph, x);
  const Value of_turned = exp(graph, add(graph, x, turned));
  const Value sums = reduce_sum(graph, wide, {3}, false);
  const Value rows = softmax(graph, x);
  graph.set_phase(Phase::loss);  // so that no reader is fused with what it reads
  graph.add_output("elements", neg(graph, joined(graph, elements)));
  graph.add_output("of_turned", neg(graph, joined(graph, of_turned)));
  graph.add_output("sums", neg(graph, joined(graph, sums)));
  graph.add_output("softmax", neg(graph, joined(graph, rows)));
  return graph;
}

Tensors inputs_of(const Graph& graph) {
  const testing::OpCase values{Op::input, "", nullptr};
  return testing::random_inputs(graph, values, 5);
}

// The results on the device; fp32 and bf16 of each.
std::vector<Tensors> results_on(const std::shared_ptr<Device>& device, Compile level) {
  std::vector<Tensors> results;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    Graph graph = heads(dtype);
    const Tensors inputs = inputs_of(graph);
    ProgramOptions options;
    options.compile.level = level;
    Program program(std::move(graph), device, options);
    std::size_t placed = 0;
    for (const NodeId id : program.graph().order()) {
      const Node& node = program.graph().node(id);
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        placed += result_order(node, i, program.graph().type(node.outputs[i]).shape.rank()).has_value() ? 1 : 0;
    }
    EXPECT_GE(placed, device->kind() == "emulated" ? 4U : 0U) << print_graph(program.graph());
    results.push_back(testing::run(program, inputs));
  }
  return results;
}

using GeneratedKernels = testing::Emulated;

TEST_F(GeneratedKernels, store_results_in_the_order_that_readers_need) {
  testing::Emulator emulator(132, false);
  for (const Compile level : {Compile::off, Compile::fuse})
    results_on(std::make_shared<testing::EmulatedDevice>(emulator), level);
  emulator.build();
  const std::vector<Tensors> expected = results_on(open_device("reference"), Compile::off);
  for (const Compile level : {Compile::off, Compile::fuse}) {
    const std::vector<Tensors> found = results_on(std::make_shared<testing::EmulatedDevice>(emulator), level);
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const auto& [name, tensor] : expected[i]) {
        const double bound = tensor.type.dtype == DType::fp32 ? 5e-6 : 8e-3;
        EXPECT_LE(testing::relative_error(found[i].at(name), tensor), bound) << name;
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
