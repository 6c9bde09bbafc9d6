#include "backends/cuda/products/epilogues/residual/residual_node.h"

#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/body_expressions.h"
#include "ir/queries.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::size_t kMostNodes = 40;  // larger bodies are something else

std::string input_text(std::size_t index) { return "i" + std::to_string(index); }

class ResidualFinder {
 public:
  ResidualFinder(const Graph& body, const Node& product) : body_(body), expressions_(body) {
    const TensorType& type = body.type(product.outputs[0]);
    found_.tokens = type.shape[0];
    found_.columns = type.shape[1];
    found_.inner = body.type(product.inputs[0]).shape[1];
    low_ = type.dtype;
    product_ = "cast_fp32(" + expressions_.of(product.outputs[0]) + ")";
    mean_ = BodyExpressions::constant(1.0 / static_cast<double>(found_.columns));
  }

  std::optional<ResidualNode> find() {
    for (const std::size_t i : inputs_of({found_.tokens, found_.columns})) {
      for (const std::size_t g : inputs_of({found_.columns})) {
        found_.g = g;
        if (find_forward(i) || find_backward(i)) return found_;
      }
    }
    return std::nullopt;
  }

 private:
  // Inputs of the shape, beside the product's, in fp32.
  std::vector<std::size_t> inputs_of(const Shape& shape) const {
    std::vector<std::size_t> found;
    for (const NodeId id : body_.inputs()) {
      const std::size_t index = std::stoul(input_name(body_.node(id)));
      const TensorType& type = body_.type(body_.node(id).outputs[0]);
      if (index >= 2 && type.dtype == DType::fp32 && type.shape == shape) found.push_back(index);
    }
    return found;
  }

  std::string low(const std::string& text) const { return "cast_" + std::string(name(low_)) + "(" + text + ")"; }

  std::string sum_of_rows(const std::string& text) const { return BodyExpressions::sum({found_.tokens, 1}, text); }

  bool find_forward(std::size_t x) {
    const std::string sum = call("add", product_, input_text(x));
    const std::string mean = call("mul", sum_of_rows(call("mul", sum, sum)), mean_);
    for (const NodeId id : body_.order()) {
      if (body_.node(id).op != Op::constant) continue;
      const double epsilon = body_.node(id).attributes.get_or("value", 0.0);
      const std::string r = "rsqrt(" + call("add", mean, BodyExpressions::constant(epsilon)) + ")";
      const auto of_sum = expressions_.result(sum);
      const auto normed = expressions_.result(low(call("mul", call("mul", sum, r), input_text(found_.g))));
      if (!of_sum || !normed) continue;
      found_.x = x;
      found_.sum = *of_sum;
      found_.normed = *normed;
      found_.r = expressions_.result(r);
      found_.epsilon = epsilon;
      return body_.outputs().size() == (found_.r ? 3U : 2U);
    }
    return false;
  }

  bool find_backward(std::size_t sum_input) {
    for (const std::size_t residual : inputs_of({found_.tokens, found_.columns})) {
      for (const std::size_t r_input : inputs_of({found_.tokens, 1})) {
        if (find_backward(input_text(sum_input), input_text(r_input), input_text(residual))) {
          found_.is_backward = true;
          found_.sum_input = sum_input;
          found_.r_input = r_input;
          found_.residual = residual;
          return body_.outputs().size() == (found_.low_gradient ? 3U : 2U);
        }
      }
    }
    return false;
  }

  bool find_backward(const std::string& sum, const std::string& r, const std::string& residual) {
    const std::string t = call("mul", product_, input_text(found_.g));
    const std::string mean = call("mul", sum_of_rows(call("mul", t, sum)), mean_);
    const std::string q = call("mul", call("mul", call("mul", r, r), r), mean);
    const std::string own = call("sub", call("mul", t, r), call("mul", sum, q));
    const std::string gradient = call("add", own, residual);
    const auto of_gradient = expressions_.result(gradient);
    const std::string of_columns =
        BodyExpressions::sum({1, found_.columns}, call("mul", product_, call("mul", sum, r)));
    const auto of_g = expressions_.result("reshape(" + of_columns + ")");
    if (!of_gradient || !of_g) return false;
    found_.gradient = *of_gradient;
    found_.of_g = *of_g;
    found_.low_gradient = expressions_.result(low(gradient));
    return true;
  }

  const Graph& body_;
  BodyExpressions expressions_;
  ResidualNode found_;
  DType low_ = DType::bf16;
  std::string product_, mean_;
};

}  // namespace

std::optional<ResidualNode> residual_of(const FusedBody& body) {
  const Graph& graph = body.graph;
  if (graph.order().size() > kMostNodes) return std::nullopt;
  const std::optional<NodeId> product = product_of(graph);
  if (!product) return std::nullopt;
  const Node& node = graph.node(*product);
  const TensorType& type = graph.type(node.outputs[0]);
  if (!is_low(type.dtype) || type.shape.rank() != 2 || type.shape[0] < 2 || type.shape[1] < 2) return std::nullopt;
  return ResidualFinder(graph, node).find();
}

}  // namespace ridgepoint::cuda
