// Runs random graphs twice through all passes, the plan and a device, and compares them with run_by_definition().
#include <gtest/gtest.h>

#include <cmath>

#include "backends/reference/reference_device.h"
#include "support/graphs/random_graph.h"
#include "support/graphs/run_by_definition.h"

namespace ridgepoint {
namespace {

using testing::Tensors;

constexpr int kRuns = 2;  // the second starts with the state of the first
constexpr std::uint64_t kGraphs = 1000;

struct Result {
  std::vector<Tensors> outputs;  // by run
  Tensors inputs;                // after the last run
};

Result by_definition(const Graph& graph, const Tensors& inputs) {
  Result result{{}, inputs};
  for (int run = 0; run < kRuns; ++run) result.outputs.push_back(testing::run_by_definition(graph, result.inputs));
  return result;
}

Result on_device(const Graph& graph, const Tensors& inputs, std::shared_ptr<Device> device,
                 Compile level = Compile::off) {
  Program program(graph, std::move(device), {.compile = {.level = level, .verify = true}});
  for (const auto& [name, tensor] : inputs) program.write_input(name, tensor);
  Result result;
  for (int run = 0; run < kRuns; ++run) {
    program.run();
    Tensors& outputs = result.outputs.emplace_back();
    for (const Output& output : graph.outputs()) outputs.emplace(output.name, program.read_output(output.name));
  }
  for (const auto& [name, tensor] : inputs) result.inputs.emplace(name, program.read_input(name));
  return result;
}

// The largest difference of two elements, divided by max(1, largest magnitude); infinite where only one is NaN.
double difference(const HostTensor& found, const HostTensor& expected) {
  const std::size_t bytes = size_bytes(expected.type.dtype);
  double largest = 0;
  double magnitude = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(expected.type.elements()); ++i) {
    const double x = load_element(found.type.dtype, found.data.data() + i * bytes);
    const double y = load_element(expected.type.dtype, expected.data.data() + i * bytes);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!std::isfinite(x) || !std::isfinite(y)) return INFINITY;
    largest = std::max(largest, std::fabs(x - y));
    magnitude = std::max(magnitude, std::fabs(y));
  }
  return largest / magnitude;
}

void expect_equal(const Tensors& found, const Tensors& expected, double tolerance, const std::string& where) {
  ASSERT_EQ(found.size(), expected.size()) << where;
  for (const auto& [name, tensor] : expected) {
    ASSERT_EQ(found.at(name).type, tensor.type) << where << name;
    EXPECT_LE(difference(found.at(name), tensor), tolerance) << where << name;
  }
}

void expect_equal(const Result& found, const Result& expected, double tolerance) {
  for (std::size_t run = 0; run < kRuns; ++run)
    expect_equal(found.outputs[run], expected.outputs[run], tolerance, "run " + std::to_string(run) + ", output ");
  expect_equal(found.inputs, expected.inputs, tolerance, "after the last run, input ");
}

bool has_values(const Graph& graph, bool (*are_asked_for)(DType)) {
  for (const NodeId id : graph.order()) {
    for (const Value value : graph.node(id).outputs) {
      if (are_asked_for(graph.type(value).dtype)) return true;
    }
  }
  return false;
}

void compare(const Graph& graph, std::uint64_t seed) {
  ASSERT_EQ(print_graph(parse_graph(print_graph(graph))), print_graph(graph));
  const Tensors inputs = testing::random_whole_inputs(graph, seed);
  const Result expected = by_definition(graph, inputs);
  expect_equal(on_device(graph, inputs, make_reference_device()), expected, 0.0);
  if (has_values(graph, [](DType dtype) { return dtype == DType::fp64; })) return;  // the cpu does not support fp64
  // A few bf16 roundings in the other direction.
  const bool has_low = has_values(graph, is_low);
  const double tolerance = has_low ? 0.1 : 1e-4;
  expect_equal(on_device(graph, inputs, open_device("cpu")), expected, tolerance);
  expect_equal(on_device(graph, inputs, open_device("cpu"), Compile::full), expected, tolerance);
}

TEST(RandomGraphs, compute_on_every_device_what_the_definition_says) {
  for (std::uint64_t seed = 1; seed <= kGraphs; ++seed) {
    const Graph graph = testing::random_graph(seed);
    EXPECT_NO_THROW(compare(graph, seed));
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ":\n" << print_graph(graph);
  }
}

}  // namespace
}  // namespace ridgepoint
