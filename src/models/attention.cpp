#include "models/attention.h"

#include <cmath>
#include <limits>

#include "ridgepoint/ops.h"

namespace ridgepoint {

Value composite_attention(Graph& graph, Value q, Value k, Value v) {
  const double head_width = static_cast<double>(graph.type(q).shape[-1]);
  Value scores;
  {
    const ScopeGuard scope(graph, "scores");
    scores = scale(graph, matmul(graph, q, transpose(graph, k, {0, 1, 3, 2})), 1.0 / std::sqrt(head_width));
  }
  {
    const ScopeGuard scope(graph, "mask");
    scores = causal_mask(graph, scores, -std::numeric_limits<double>::infinity());
  }
  Value weights;
  {
    const ScopeGuard scope(graph, "softmax");
    // The shift by the maximum cancels in the quotient, so nothing flows back through it.
    const Value top = detach(graph, reduce_max(graph, scores, {-1}, true));
    const Value exponentials = exp(graph, sub(graph, scores, top));
    weights = div(graph, exponentials, reduce_sum(graph, exponentials, {-1}, true));
  }
  const ScopeGuard scope(graph, "values");
  return matmul(graph, weights, v);
}

}  // namespace ridgepoint
