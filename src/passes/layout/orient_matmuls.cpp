// Makes a matmul write the transposed result where all its readers transpose the last two axes: (a b)^T = b^T a^T. The
// transposed operands are views, so the work is the same, and the result is dense without a copy. The gradient of a
// linear layer's weight is such a result.
#include <algorithm>

#include "ir/permutation.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/float8_product.h"
#include "passes/pass.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

// Whether the node is a transpose that moves the second to last axis to the end.
bool swaps_last_axes(const Node& node) {
  return node.op == Op::transpose && permutation_of(node).back() == std::ssize(permutation_of(node)) - 2;
}

class MatmulOrienter {
 public:
  explicit MatmulOrienter(Graph& graph) : graph_(graph), rewriter_(graph), readers_(graph) {}

  bool run() {
    for (const NodeId id : nodes_of(graph_)) {
      if (is_transposed_by_all_readers(graph_.node(id))) orient(id);
    }
    return rewriter_.finish();
  }

 private:
  bool is_transposed_by_all_readers(const Node& node) const {
    if (node.op != Op::matmul || readers_.is_result(node.outputs[0])) return false;
    const std::vector<NodeId>& readers = readers_.of(node.outputs[0]);
    return !readers.empty() && std::all_of(readers.begin(), readers.end(),
                                           [&](NodeId reader) { return swaps_last_axes(graph_.node(reader)); });
  }

  void orient(NodeId id) {
    const Node& node = graph_.node(id);
    rewriter_.insert_before(id);
    const Permutation swap = with_last_two_swapped(identity_permutation(graph_.type(node.outputs[0]).shape.rank()));
    Attributes attributes = node.attributes;
    if (const std::optional<Float8Operands> codes = float8_operands(attributes))
      set_float8_operands(attributes, {codes->right, codes->left});
    const NodeId made =
        make_node(graph_, Op::matmul, {transposed(node.inputs[1], swap), transposed(node.inputs[0], swap)}, attributes);
    const Value product = graph_.node(made).outputs[0];
    for (const NodeId reader : readers_.of(node.outputs[0])) {
      const Value result[] = {transposed(product, composed(swap, permutation_of(graph_.node(reader))))};
      rewriter_.replace(reader, result);
    }
    rewriter_.remove(id);
  }

  // `x` with its axes permuted. A transpose that produces x is merged into the new one.
  Value transposed(Value x, Permutation permutation) {
    const NodeId maker = graph_.producer(x);
    const Node& producer = graph_.node(maker);
    if (producer.op == Op::transpose && !rewriter_.is_removed(maker)) {
      permutation = composed(permutation_of(producer), std::move(permutation));
      x = producer.inputs[0];
    }
    return is_identity(permutation) ? x : transpose(graph_, x, permutation);
  }

  Graph& graph_;
  Rewriter rewriter_;
  Readers readers_;
};

}  // namespace

bool orient_matmuls(Graph& graph, const PassOptions&) { return MatmulOrienter(graph).run(); }

}  // namespace ridgepoint
