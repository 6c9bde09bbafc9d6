// Runs one node through the tile interpreter on operands of any layout, and through the reference back end in double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/kernel_harness.h"
#include "backends/cpu/tile/interpreter.h"
#include "backends/reference/reference_device.h"
#include "core/threads/parallel.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint::testing {

struct TileCase {
  Op op;
  std::vector<Operand> operands;
  Attributes attributes = {};
};

// The case's node on inputs "x0", "x1", ... of the operands' types, floating ones replaced by `floating` if given.
inline const Node& add_case(Graph& graph, const TileCase& test, std::optional<DType> floating = {}) {
  std::vector<Value> values;
  for (const Operand& operand : test.operands) {
    TensorType type = operand.type();
    if (floating && is_floating(type.dtype)) type.dtype = *floating;
    values.push_back(operand.layout.immediate ? constant(graph, *operand.layout.immediate, type.dtype)
                                              : input(graph, "x" + std::to_string(values.size()), type, Role::data));
  }
  return graph.node(make_node(graph, test.op, values, test.attributes));
}

// The kernel's outputs. The pairs {output, operand} of `in_place` share memory; the operands themselves are copied.
// Checks that nothing is written beyond an output or the workspace.
inline std::vector<HostTensor> run_tile(TileCase test, int threads,
                                        const std::vector<std::pair<int, int>>& in_place = {}) {
  constexpr std::byte kGuard{0x7f};
  constexpr std::size_t kGuardBytes = 64;
  const int threads_before = thread_count();
  set_thread_count(threads);
  Graph graph;
  const Node& node = add_case(graph, test);
  std::vector<TensorLayout> inputs;
  std::vector<void*> input_addresses;
  for (Operand& operand : test.operands) {
    inputs.push_back(operand.layout);
    input_addresses.push_back(operand.layout.immediate ? nullptr : operand.address());
  }
  std::vector<TensorLayout> outputs;
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> output_addresses;
  for (const Value value : node.outputs) {
    outputs.push_back(dense_layout(graph.type(value)));
    memory.emplace_back(graph.type(value).bytes() + kGuardBytes, kGuard);
    output_addresses.push_back(memory.back().data());
  }
  for (const auto& [output, operand] : in_place) {
    output_addresses[static_cast<std::size_t>(output)] = input_addresses[static_cast<std::size_t>(operand)];
  }
  const std::unique_ptr<Kernel> kernel = cpu::make_tile_kernel({graph, node, inputs, outputs});
  std::vector<std::byte> workspace(kernel->workspace_bytes() + 64 + kGuardBytes, kGuard);
  void* aligned = workspace.data();
  std::size_t space = workspace.size();
  std::align(64, kernel->workspace_bytes(), aligned, space);
  // It runs twice, because the second run must not depend on the contents of its workspace.
  if (in_place.empty()) kernel->launch({input_addresses.data(), output_addresses.data(), aligned});
  kernel->launch({input_addresses.data(), output_addresses.data(), aligned});
  set_thread_count(threads_before);

  const std::byte* end = static_cast<const std::byte*>(aligned) + kernel->workspace_bytes();
  EXPECT_TRUE(std::all_of(end, end + kGuardBytes, [](std::byte b) { return b == kGuard; }))
      << "wrote past the workspace";
  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    EXPECT_TRUE(std::all_of(memory[i].end() - kGuardBytes, memory[i].end(), [](std::byte b) { return b == kGuard; }))
        << "wrote past output " << i;
    results.emplace_back(graph.type(node.outputs[i]));
    std::copy_n(static_cast<const std::byte*>(output_addresses[i]), results.back().data.size(),
                results.back().data.begin());
  }
  return results;
}

// The same outputs in double, from the reference back end.
inline std::vector<HostTensor> expected_of(const TileCase& test) {
  Graph graph;
  const Node node = add_case(graph, test, DType::fp64);
  Tensors inputs;
  for (std::size_t i = 0; i < test.operands.size(); ++i) {
    const Operand& operand = test.operands[i];
    if (operand.layout.immediate) continue;
    HostTensor dense(graph.type(node.inputs[i]));
    const std::size_t bytes = size_bytes(dense.type.dtype);
    for (std::int64_t e = 0; e < dense.type.elements(); ++e) {
      store_element(dense.type.dtype, dense.data.data() + static_cast<std::size_t>(e) * bytes,
                    operand.at(unravel(operand.layout.shape, e)));
    }
    inputs.emplace("x" + std::to_string(i), std::move(dense));
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) graph.add_output("y" + std::to_string(i), node.outputs[i]);
  const std::size_t count = node.outputs.size();
  const Tensors found = run_graph(std::move(graph), make_reference_device(), inputs);
  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < count; ++i) results.push_back(found.at("y" + std::to_string(i)));
  return results;
}

inline void expect_agreement(const TileCase& test, double tolerance = 1e-6,
                             const std::vector<std::pair<int, int>>& in_place = {}) {
  const std::vector<HostTensor> expected = expected_of(test);
  for (const int threads : {1, 2, 3}) {
    const std::vector<HostTensor> found = run_tile(test, threads, in_place);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(relative_error(found[i], expected[i]), tolerance)
          << name(test.op) << " output " << i << " with " << threads << " threads";
    }
  }
}

}  // namespace ridgepoint::testing
