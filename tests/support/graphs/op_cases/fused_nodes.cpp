#include "support/graphs/op_cases/cases.h"

#include <memory>
#include <utility>

namespace ridgepoint::testing {
namespace {

// A residual sum, its norm by the root of the sum of squares, and the square root itself, in one node.
Values sum_and_norm(Graph& graph, const Values& x) {
  Graph body;
  body.name = "fused_add_norm";
  Values inner;
  for (std::size_t i = 0; i < x.size(); ++i)
    inner.push_back(input(body, std::to_string(i), graph.type(x[i]), Role::data));
  const Value sum = add(body, inner[0], inner[1]);
  const Value root = sqrt(body, shift(body, reduce_sum(body, mul(body, sum, sum), {-1}, true), 1.0));
  body.add_output("0", sum);
  body.add_output("1", mul(body, div(body, sum, root), inner[2]));
  body.add_output("2", root);
  return graph.node(add_fused(graph, x, std::make_shared<const FusedBody>(std::move(body)))).outputs;
}

// The sums over the rows of a product, as in the gradient of a norm's weight.
Values sum_over_rows(Graph& graph, const Values& x) {
  Graph body;
  body.name = "fused_mul_reduce_sum";
  const Value a = input(body, "0", graph.type(x[0]), Role::data);
  const Value b = input(body, "1", graph.type(x[1]), Role::data);
  const Value product = mul(body, a, b);
  body.add_output("0", product);
  body.add_output("1", reduce_sum(body, product, {0}));
  return graph.node(add_fused(graph, x, std::make_shared<const FusedBody>(std::move(body)))).outputs;
}

// A product that ends in its loss.
Values loss_of_product(Graph& graph, const Values& x) {
  Graph body;
  body.name = "fused_matmul_cross_entropy";
  Values inner;
  for (std::size_t i = 0; i < x.size(); ++i)
    inner.push_back(input(body, std::to_string(i), graph.type(x[i]), Role::data));
  const Value logits = matmul(body, inner[0], inner[1]);
  const auto [losses, log_sum_exps] = cross_entropy(body, logits, inner[2]);
  body.add_output("0", logits);
  body.add_output("1", losses);
  body.add_output("2", log_sum_exps);
  return graph.node(add_fused(graph, x, std::make_shared<const FusedBody>(std::move(body)))).outputs;
}

}  // namespace

void add_fused_nodes(OpCases& cases) {
  for (const Shape& shape : {Shape{3, 67}, Shape{2, 5, 64}, Shape{1, 1}}) {
    cases
        .add_case(Op::fused, "norm_" + OpCases::shape_name(shape),
                  graph_of({shape, shape, Shape{shape[-1]}}, sum_and_norm))
        .differentiable = false;
  }
  cases.add_case(Op::fused, "rows", graph_of({Shape{37, 12}, Shape{37, 12}}, sum_over_rows)).differentiable = false;
  OpCase& loss =
      cases.add_case(Op::fused, "loss", graph_of({Shape{6, 24}, Shape{24, 40}}, loss_of_product, {Shape{6}}));
  loss.differentiable = false;
  loss.index_bound = 40;
}

}  // namespace ridgepoint::testing
