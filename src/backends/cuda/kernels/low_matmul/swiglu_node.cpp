#include "backends/cuda/kernels/low_matmul/swiglu_node.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/queries.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::size_t kMostNodes = 24;  // larger bodies are something else

std::string call(std::string_view op, std::string a, std::string b) {
  const bool commutes = op == "mul" || op == "add";
  if (commutes && b < a) std::swap(a, b);
  return std::string(op) + "(" + a + "," + b + ")";
}

// Values of a body as expressions; operands of sums and products are in alphabetical order.
class Expressions {
 public:
  explicit Expressions(const Graph& body) {
    for (const NodeId id : body.order()) add(body.node(id));
  }
  const std::string& of(Value value) const { return of_.at(value); }

 private:
  void add(const Node& node) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) of_[node.outputs[i]] = expression(node, i);
  }
  std::string expression(const Node& node, std::size_t output) const {
    const std::string op(name(node.op));
    if (node.op == Op::input) return "i" + input_name(node);
    if (node.op == Op::constant) return node.attributes.get_or("value", 0.0) == 1.0 ? "1" : "constant";
    if (node.inputs.size() == 2) return call(op, of(node.inputs[0]), of(node.inputs[1]));
    std::string text = op;
    if (node.op == Op::split) text += std::to_string(output) + "of" + std::to_string(node.outputs.size());
    for (const Value value : node.inputs) text += "(" + of(value) + ")";
    return text;
  }

  std::map<Value, std::string> of_;
};

struct Expected {
  std::string hidden, gate_gradient, up_gradient;
};
Expected expected_of(const std::string& gate, const std::string& up, const std::string& d) {
  const std::string sigmoid = "sigmoid(" + gate + ")";
  const std::string silu = call("mul", gate, sigmoid);
  const std::string slope = call("add", sigmoid, call("mul", silu, call("sub", "1", sigmoid)));
  return {call("mul", silu, up), call("mul", call("mul", d, up), slope), call("mul", d, silu)};
}

std::optional<std::size_t> result_with(const Graph& body, const Expressions& expressions, const std::string& wanted) {
  for (const Output& output : body.outputs()) {
    if (expressions.of(output.value) == wanted) return std::stoul(output.name);
  }
  return std::nullopt;
}

bool are_matrices_of_one_dtype(const Graph& body, DType dtype) {
  return std::ranges::all_of(body.order(), [&](NodeId id) {
    return std::ranges::all_of(body.node(id).outputs, [&](Value value) {
      const TensorType& type = body.type(value);
      return type.dtype == dtype && (type.shape.rank() == 2 || body.node(id).op == Op::constant);
    });
  });
}

// The only matmul of operands 0 and 1.
std::optional<NodeId> product_of(const Graph& body) {
  std::optional<NodeId> product;
  for (const NodeId id : body.order()) {
    if (op_class(body.node(id).op) != OpClass::contraction) continue;
    if (product || body.node(id).op != Op::matmul) return std::nullopt;
    product = id;
  }
  return product;
}

bool find_forward(const Graph& body, const Expressions& expressions, const std::string& product, SwigluNode& found) {
  const Expected expected = expected_of("split0of2(" + product + ")", "split1of2(" + product + ")", "");
  const std::optional<std::size_t> hidden = result_with(body, expressions, expected.hidden);
  found.halves = result_with(body, expressions, product);
  if (!hidden || body.outputs().size() != (found.halves ? 2U : 1U)) return false;
  found.hidden = *hidden;
  found.features /= 2;
  return body.type(body.outputs()[0].value).shape.rank() == 2 &&
         std::ranges::any_of(body.outputs(),
                             [&](const Output& output) { return body.type(output.value).shape[-1] == found.features; });
}

bool find_backward(const Graph& body, const Expressions& expressions, const std::string& product, SwigluNode& found) {
  if (body.outputs().size() != 2) return false;
  for (const auto& [gate, up] : {std::pair<std::size_t, std::size_t>(2, 3), {3, 2}}) {
    const Expected expected = expected_of("i" + std::to_string(gate), "i" + std::to_string(up), product);
    const auto of_gate = result_with(body, expressions, expected.gate_gradient);
    const auto of_up = result_with(body, expressions, expected.up_gradient);
    if (!of_gate || !of_up) continue;
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
  const Expressions expressions(graph);
  const std::string& expression = expressions.of(node.outputs[0]);
  if (expression != call("matmul", "i0", "i1")) return std::nullopt;
  SwigluNode found;
  found.product = *product;
  found.tokens = graph.type(node.inputs[0]).shape[0];
  found.inner = graph.type(node.inputs[0]).shape[1];
  found.features = graph.type(node.outputs[0]).shape[1];
  if (find_backward(graph, expressions, expression, found)) return found;
  if (find_forward(graph, expressions, expression, found)) return found;
  return std::nullopt;
}

}  // namespace ridgepoint::cuda
