// Runs one node of a graph on a device, with operands and results as doubles.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "ops/layout.h"
#include "ridgepoint/ir/tensor.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// An operand's storage and the node's view of it. Constants need none.
struct TestOperand {
  std::vector<double> storage;
  std::int64_t offset = 0;             // of element (0,...,0)
  std::optional<TensorLayout> layout;  // dense when left out
};

inline std::vector<std::byte> to_bytes(DType dtype, const std::vector<double>& values) {
  const std::size_t element_bytes = size_bytes(dtype);
  std::vector<std::byte> bytes(values.size() * element_bytes);
  for (std::size_t i = 0; i < values.size(); ++i) store_element(dtype, bytes.data() + i * element_bytes, values[i]);
  return bytes;
}

// The layout of a node's operand: an immediate for a constant, otherwise the test's choice.
inline TensorLayout operand_layout(const Graph& graph, Value value, const TestOperand& operand) {
  TensorLayout layout = operand.layout.value_or(dense_layout(graph.type(value)));
  const Node& producer = graph.producer_node(value);
  if (producer.op == Op::constant) {
    std::vector<ValueLayout> layouts;
    assign_layouts(graph, producer, layouts);
    return layouts[value.id].layout;
  }
  return layout;
}

// The first output, `result`. Memory is filled with a pattern, which shows elements that are not written.
inline std::vector<double> run_node(Device& device, const Graph& graph, Value result,
                                    const std::vector<TestOperand>& operands) {
  const Node& node = graph.producer_node(result);
  std::vector<std::vector<std::byte>> storage;
  std::vector<TensorLayout> inputs;
  std::vector<void*> addresses;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(operand_layout(graph, node.inputs[i], operands.at(i)));
    const DType dtype = inputs.back().dtype;
    storage.push_back(to_bytes(dtype, operands[i].storage));
    const auto offset_bytes = operands[i].offset * static_cast<std::int64_t>(size_bytes(dtype));
    addresses.push_back(inputs.back().immediate ? nullptr : storage.back().data() + offset_bytes);
  }
  std::vector<TensorLayout> outputs;
  std::vector<std::vector<std::byte>> results;
  std::vector<void*> result_addresses;
  for (const Value value : node.outputs) {
    outputs.push_back(dense_layout(graph.type(value)));
    results.emplace_back(graph.type(value).bytes(), std::byte{0xA5});
    result_addresses.push_back(results.back().data());
  }
  const std::unique_ptr<Kernel> kernel = device.make_kernel({graph, node, inputs, outputs});
  std::vector<std::byte> workspace(kernel->workspace_bytes(), std::byte{0xA5});
  kernel->launch({addresses.data(), result_addresses.data(), workspace.data()});
  device.synchronize();

  const TensorType& type = graph.type(result);
  std::vector<double> values;
  for (std::size_t i = 0; i < static_cast<std::size_t>(type.elements()); ++i) {
    values.push_back(load_element(type.dtype, results[0].data() + i * size_bytes(type.dtype)));
  }
  return values;
}

}  // namespace ridgepoint
