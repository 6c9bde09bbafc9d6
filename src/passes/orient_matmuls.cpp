// Lets a matmul write its result the way its readers take it: where every reader turns the result's rows into the last
// axis, (a b) becomes (b^T a^T), which lies so already. The transposed operands are views; the work is the same. The
// gradient of a linear layer's weight is such a result, and an optimizer or a file wants it dense.
#include <algorithm>

#include "ir/permutation.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "passes/pass.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

// Whether the node moves the axis before the last to the end.
bool ends_in_rows(const Node& node) {
  return node.op == Op::transpose && permutation_of(node).back() == std::ssize(permutation_of(node)) - 2;
}

class MatmulOrienter {
 public:
  explicit MatmulOrienter(Graph& graph) : graph_(graph), rewriter_(graph), readers_(graph) {}

  bool run() {
    for (const NodeId id : nodes_of(graph_)) {
      if (is_turned_by_all(graph_.node(id))) orient(id);
    }
    return rewriter_.finish();
  }

 private:
  bool is_turned_by_all(const Node& node) const {
    if (node.op != Op::matmul || readers_.is_result(node.outputs[0])) return false;
    const std::vector<NodeId>& readers = readers_.of(node.outputs[0]);
    return !readers.empty() && std::all_of(readers.begin(), readers.end(),
                                           [&](NodeId reader) { return ends_in_rows(graph_.node(reader)); });
  }

  void orient(NodeId id) {
    const Node& node = graph_.node(id);
    rewriter_.stand_before(id);
    const Permutation swap = with_last_two_swapped(unmoved_axes(graph_.type(node.outputs[0]).shape.rank()));
    const NodeId made =
        make_node(graph_, Op::matmul, {turned(node.inputs[1], swap), turned(node.inputs[0], swap)}, node.attributes);
    const Value product = graph_.node(made).outputs[0];
    for (const NodeId reader : readers_.of(node.outputs[0])) {
      const Value result[] = {turned(product, composed(swap, permutation_of(graph_.node(reader))))};
      rewriter_.replace(reader, result);
    }
    rewriter_.remove(id);
  }

  // `x` with its axes permuted; a transpose that stays and makes x is taken in.
  Value turned(Value x, Permutation permutation) {
    const NodeId maker = graph_.producer(x);
    const Node& producer = graph_.node(maker);
    if (producer.op == Op::transpose && !rewriter_.is_removed(maker)) {
      permutation = composed(permutation_of(producer), std::move(permutation));
      x = producer.inputs[0];
    }
    return moves_nothing(permutation) ? x : transpose(graph_, x, permutation);
  }

  Graph& graph_;
  Rewriter rewriter_;
  Readers readers_;
};

}  // namespace

bool orient_matmuls(Graph& graph, const PassOptions&) { return MatmulOrienter(graph).run(); }

}  // namespace ridgepoint
