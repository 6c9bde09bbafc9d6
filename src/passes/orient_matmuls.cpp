// Lets a matmul write its result the way its readers take it: where every reader turns the result's rows into the last
// axis, (a b) becomes (b^T a^T), which lies so already. The transposed operands are views; the work is the same. The
// gradient of a linear layer's weight is such a result, and an optimizer or a file wants it dense.
#include <algorithm>
#include <numeric>

#include "passes/pass.h"
#include "passes/queries.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

using Permutation = std::vector<std::int64_t>;

const Permutation& permutation_of(const Node& transpose_node) {
  return transpose_node.attributes.get<Permutation>("permutation");
}

// Whether the node moves the axis before the last to the end.
bool ends_in_rows(const Node& node) {
  return node.op == Op::transpose && permutation_of(node).back() == std::ssize(permutation_of(node)) - 2;
}

Permutation last_two_swapped(int rank) {
  Permutation permutation(static_cast<std::size_t>(rank));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation.end()[-1], permutation.end()[-2]);
  return permutation;
}

class MatmulOrienter {
 public:
  explicit MatmulOrienter(Graph& graph) : graph_(graph), readers_(graph), is_replaced_(graph.node_capacity()) {}

  bool run() {
    const std::vector<NodeId> order(graph_.order().begin(), graph_.order().end());
    for (const NodeId id : order) {
      if (is_turned_by_all(graph_.node(id))) orient(id);
    }
    graph_.replace_uses(replacements_);
    graph_.erase(replaced_);
    return !replaced_.empty();
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
    graph_.set_insertion_before(id);
    graph_.set_phase(node.phase);
    graph_.set_scope(graph_.scope_name(node));
    const Permutation swap = last_two_swapped(graph_.type(node.outputs[0]).shape.rank());
    const NodeId made =
        make_node(graph_, Op::matmul, {turned(node.inputs[1], swap), turned(node.inputs[0], swap)}, node.attributes);
    const Value product = graph_.node(made).outputs[0];
    for (const NodeId reader : readers_.of(node.outputs[0])) {
      Permutation permutation = permutation_of(graph_.node(reader));
      for (std::int64_t& axis : permutation) axis = swap[static_cast<std::size_t>(axis)];
      replacements_.emplace_back(graph_.node(reader).outputs[0], turned(product, permutation));
      replace(reader);
    }
    replace(id);
  }

  void replace(NodeId id) {
    replaced_.push_back(id);
    is_replaced_[id.id] = true;
  }

  // `x` with its axes permuted; a transpose that stays and makes x is taken in.
  Value turned(Value x, Permutation permutation) {
    const NodeId maker = graph_.producer(x);
    const Node& producer = graph_.node(maker);
    if (producer.op == Op::transpose && maker.id < is_replaced_.size() && !is_replaced_[maker.id]) {
      for (std::int64_t& axis : permutation) axis = permutation_of(producer)[static_cast<std::size_t>(axis)];
      x = producer.inputs[0];
    }
    return std::is_sorted(permutation.begin(), permutation.end()) ? x : transpose(graph_, x, permutation);
  }

  Graph& graph_;
  Readers readers_;
  std::vector<bool> is_replaced_;  // by node that was there at the start
  std::vector<std::pair<Value, Value>> replacements_;
  std::vector<NodeId> replaced_;
};

}  // namespace

bool orient_matmuls(Graph& graph, const PassOptions&) { return MatmulOrienter(graph).run(); }

}  // namespace ridgepoint
