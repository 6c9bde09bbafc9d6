// The path of a graph text through parser, verifier, passes, plan and executor. For any text each stage throws Error or
// succeeds: a graph that verify() accepts is verified again after every pass, is planned for a device with all kernels
// and for one with kernels of primitive ops only, and runs twice on the null device and, if it is small, on the
// reference device.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "backends/null/null_device.h"
#include "backends/reference/reference_device.h"
#include "compile/compile.h"
#include "passes/pass.h"
#include "passes/precision/autocast.h"
#include "plan/plan.h"
#include "require.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"

namespace {

// Limits that keep the time of one input to about a second.
constexpr std::size_t kMaxTextBytes = 1 << 16;
constexpr std::int64_t kMaxPlanned = 1 << 28;    // elements of one value, so that a product of two can be planned
constexpr std::int64_t kMaxElements = 1 << 14;   // of one value, for the reference device
constexpr std::int64_t kMaxProducts = 1 << 20;   // of one matmul
constexpr std::size_t kMemoryBytes = 256 << 20;  // of the reference device

bool has_at_most(const ridgepoint::Graph& graph, std::int64_t elements) {
  for (const ridgepoint::NodeId id : graph.order()) {
    for (const ridgepoint::Value value : graph.node(id).outputs) {
      if (graph.type(value).elements() > elements) return false;
    }
  }
  return true;
}

bool is_small(const ridgepoint::Graph& graph) {
  if (!has_at_most(graph, kMaxElements)) return false;
  for (const ridgepoint::NodeId id : graph.order()) {
    const ridgepoint::Node& node = graph.node(id);
    if (node.op != ridgepoint::Op::matmul && node.op != ridgepoint::Op::attention &&
        node.op != ridgepoint::Op::attention_backward)
      continue;
    // At most the product of the numbers of elements of both operands.
    std::int64_t products = 1;
    for (const ridgepoint::Value value : node.inputs) {
      products *= 1 + graph.type(value).elements();
      if (products > kMaxProducts) return false;
    }
  }
  return true;
}

// With autocast and fusion if `precision` asks for them.
void plan_for_every_kernel(ridgepoint::Graph graph, std::optional<ridgepoint::Precision> precision) {
  ridgepoint::PassOptions options;
  options.verify = true;
  options.target.has_kernel = [](const ridgepoint::Graph&, const ridgepoint::Node&) { return true; };
  options.target.operand_layout = [](const ridgepoint::Graph&, const ridgepoint::Node& node, int) {
    switch (ridgepoint::op_class(node.op)) {
      case ridgepoint::OpClass::contraction: return ridgepoint::OperandLayout::batched_matrix;
      case ridgepoint::OpClass::elementwise:
      case ridgepoint::OpClass::reduction: return ridgepoint::OperandLayout::any;
      default: return ridgepoint::OperandLayout::dense;
    }
  };
  try {
    if (precision) {
      ridgepoint::autocast(graph, {*precision, {}});
      ridgepoint::verify(graph);
      options.level = ridgepoint::Compile::fuse;
      ridgepoint::recognise_attention(graph, options);
      graph.set_insertion_at_end();
    }
    graph = ridgepoint::compile(std::move(graph), options.target, {.verify = true});
  } catch (const ridgepoint::Error&) {  // for example a decomposition that needs too many dimensions
    return;
  }
  (void)ridgepoint::make_plan(graph);  // the result of the passes can be planned
}

void run(const ridgepoint::Graph& graph, std::shared_ptr<ridgepoint::Device> device) {
  ridgepoint::Program program(graph, std::move(device), {.compile = {.verify = true}});
  for (int i = 0; i < 2; ++i) program.run();
  RIDGEPOINT_REQUIRE(program.graph().updates().size() <= graph.updates().size());
  for (const ridgepoint::Output& output : program.graph().outputs())
    RIDGEPOINT_REQUIRE(program.read_output(output.name).type == graph.type(*graph.find_output(output.name)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kMaxTextBytes) return 0;
  ridgepoint::Graph graph;
  try {
    graph = ridgepoint::parse_graph(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const ridgepoint::Error&) {
    return 0;
  }
  if (has_at_most(graph, kMaxPlanned)) {
    plan_for_every_kernel(graph, std::nullopt);
    plan_for_every_kernel(graph, ridgepoint::Precision::fp16);
  }
  for (const bool on_null : {true, false}) {
    if (!on_null && !is_small(graph)) break;
    const auto reference = ridgepoint::make_reference_device({.memory_limit_bytes = kMemoryBytes});
    try {
      run(graph, on_null ? ridgepoint::make_null_device(reference, kMemoryBytes) : reference);
    } catch (const ridgepoint::Error&) {
    }
  }
  return 0;
}
