#include "backends/cuda/products/epilogues/swiglu/swiglu_node.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/cuda/products/epilogues/body_expressions.h"
#include "ir/queries.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::size_t kMostNodes = 24;  // larger bodies are something else

struct Expected {
  std::string hidden, gate_gradient, up_gradient;
};
Expected expected_of(const std::string& gate, const std::string& up, const std::string& d) {
  const std::string sigmoid = "sigmoid(" + gate + ")";
  const std::string silu = call("mul", gate, sigmoid);
  const std::string slope = call("add", sigmoid, call("mul", silu, call("sub", BodyExpressions::constant(1), sigmoid)));
  return {call("mul", silu, up), call("mul", call("mul", d, up), slope), call("mul", d, silu)};
}

bool are_matrices_of_one_dtype(const Graph& body, DType dtype) {
  return std::ranges::all_of(body.order(), [&](NodeId id) {
    return std::ranges::all_of(body.node(id).outputs, [&](Value value) {
      const TensorType& type = body.type(value);
      return type.dtype == dtype && (type.shape.rank() == 2 || body.node(id).op == Op::constant);
    });
  });
}

bool find_forward(const Graph& body, const BodyExpressions& expressions, const std::string& product,
                  SwigluNode& found) {
  const Expected expected = expected_of("split0of2(" + product + ")", "split1of2(" + product + ")", "");
  const std::optional<std::size_t> hidden = expressions.result(expected.hidden);
  found.halves = expressions.result(product);
  if (!hidden || body.outputs().size() != (found.halves ? 2U : 1U)) return false;
  found.hidden = *hidden;
  found.features /= 2;
  return body.type(body.outputs()[0].value).shape.rank() == 2 &&
         std::ranges::any_of(body.outputs(),
                             [&](const Output& output) { return body.type(output.value).shape[-1] == found.features; });
}

// Whether an input has the shape of the product: another one would be broadcast.
bool has_shape(const Graph& body, std::size_t input, const SwigluNode& found) {
  return body.type(*body.find_input(std::to_string(input))).shape == Shape{found.tokens, found.features};
}

bool find_backward(const Graph& body, const BodyExpressions& expressions, const std::string& product,
                   SwigluNode& found) {
  if (body.outputs().size() != 2) return false;
  for (const auto& [gate, up] : {std::pair<std::size_t, std::size_t>(2, 3), {3, 2}}) {
    const Expected expected = expected_of("i" + std::to_string(gate), "i" + std::to_string(up), product);
    const auto of_gate = expressions.result(expected.gate_gradient);
    const auto of_up = expressions.result(expected.up_gradient);
    if (!of_gate || !of_up || !has_shape(body, gate, found) || !has_shape(body, up, found)) continue;
    found.is_backward = true;
    found.gate = gate;
    found.up = up;
    found.gate_gradient = *of_gate;
    found.up_gradient = *of_up;
    return true;
  }
  return false;
}

}  // namespace

std::optional<SwigluNode> swiglu_of(const FusedBody& body) {
  const Graph& graph = body.graph;
  if (graph.order().size() > kMostNodes) return std::nullopt;
  const std::optional<NodeId> product = product_of(graph);
  if (!product) return std::nullopt;
  const Node& node = graph.node(*product);
  if (!are_matrices_of_one_dtype(graph, graph.type(node.outputs[0]).dtype)) return std::nullopt;
  const BodyExpressions expressions(graph);
  const std::string& expression = expressions.of(node.outputs[0]);
  SwigluNode found;
  found.tokens = graph.type(node.inputs[0]).shape[0];
  found.inner = graph.type(node.inputs[0]).shape[1];
  found.features = graph.type(node.outputs[0]).shape[1];
  if (find_backward(graph, expressions, expression, found)) return found;
  if (find_forward(graph, expressions, expression, found)) return found;
  return std::nullopt;
}

}  // namespace ridgepoint::cuda
