// Makes a matmul write the transposed result where all its readers transpose the last two axes: (a b)^T = b^T a^T. The
// transposed operands are views, so the work is the same, and the result is dense without a copy. The gradient of a
// linear layer's weight is such a result.
#include <algorithm>

#include "ir/permutation.h"
#include "ops/float8_product.h"
#include "passes/node_rewriter.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

// Whether the node is a transpose that moves the second to last axis to the end.
bool swaps_last_axes(const Node& node) {
  return node.op == Op::transpose && permutation_of(node).back() == std::ssize(permutation_of(node)) - 2;
}

class MatmulOrienter : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    return rewrite(Op::matmul, [this](NodeId id) {
      if (is_transposed_by_all_readers(graph_.node(id).outputs[0])) orient(id);
    });
  }

 private:
  bool is_transposed_by_all_readers(Value product) const {
    const std::vector<NodeId>& readers = readers_.of(product);
    return !readers_.is_result(product) && !readers.empty() &&
           std::ranges::all_of(readers, [&](NodeId reader) { return swaps_last_axes(graph_.node(reader)); });
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
      rewriter_.replace(reader, transposed(product, composed(swap, permutation_of(graph_.node(reader)))));
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
};

}  // namespace

bool orient_matmuls(Graph& graph, const PassOptions& options) { return MatmulOrienter(graph, options.target).run(); }

}  // namespace ridgepoint
