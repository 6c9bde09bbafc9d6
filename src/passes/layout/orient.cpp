// Passes that move transposes from the readers of a node to its operands.
#include <algorithm>
#include <optional>

#include "ir/permutation.h"
#include "ops/float8_product.h"
#include "passes/node_rewriter.h"
#include "ridgepoint/ops/ops.h"

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
    const std::span<const NodeId> readers = readers_.of(product);
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
    for (const NodeId reader : readers_.of(node.outputs[0]))
      rewriter_.replace(reader, transposed(product, composed(swap, permutation_of(graph_.node(reader)))));
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

class RotationOrienter : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    return rewrite(Op::rope, [this](NodeId id) {
      if (const std::optional<Permutation> permutation = shared_permutation(graph_.node(id))) orient(id, *permutation);
    });
  }

 private:
  // The permutation of a reader, without a swap of the last two axes; empty where it moves the last axis elsewhere.
  std::optional<Permutation> leading_permutation(const Node& reader) const {
    if (reader.op != Op::transpose) return std::nullopt;
    Permutation permutation = permutation_of(reader);
    const auto last = static_cast<std::int64_t>(permutation.size()) - 1;
    if (permutation.end()[-2] == last) permutation = with_last_two_swapped(permutation);
    if (permutation.back() != last) return std::nullopt;
    return permutation;
  }

  // Empty where readers differ or nothing moves.
  std::optional<Permutation> shared_permutation(const Node& node) const {
    const std::span<const NodeId> readers = readers_.of(node.outputs[0]);
    if (readers.empty() || readers_.is_result(node.outputs[0])) return std::nullopt;
    const std::optional<Permutation> shared = leading_permutation(graph_.node(readers.front()));
    if (!shared || is_identity(*shared)) return std::nullopt;
    const bool agree = std::all_of(readers.begin(), readers.end(),
                                   [&](NodeId reader) { return leading_permutation(graph_.node(reader)) == shared; });
    return agree ? shared : std::nullopt;
  }

  void orient(NodeId id, const Permutation& permutation) {
    const Node& node = graph_.node(id);
    rewriter_.insert_before(id);
    const auto axis =
        std::find(permutation.begin(), permutation.end(),
                  normalise_axis(node.attributes.get<std::int64_t>("axis"), static_cast<int>(permutation.size())));
    const Value rotated = rope(graph_, transpose(graph_, node.inputs[0], permutation), node.inputs[1], node.inputs[2],
                               static_cast<int>(axis - permutation.begin()), node.attributes.get<bool>("inverse"));
    const Permutation swap = with_last_two_swapped(identity_permutation(static_cast<int>(permutation.size())));
    for (const NodeId id_of_reader : readers_.of(node.outputs[0])) {
      const Node& reader = graph_.node(id_of_reader);
      rewriter_.replace(id_of_reader,
                        permutation_of(reader) == permutation ? rotated : transpose(graph_, rotated, swap));
    }
    rewriter_.remove(id);
  }
};

}  // namespace

// If all readers of a matmul transpose its last two axes, makes the matmul write the transposed result: (a b)^T = b^T
// a^T. The transposed operands are views, so the work is the same, and the result is dense without a copy. An example
// is the gradient of a linear layer's weight.
bool orient_matmuls(Graph& graph, const PassOptions& options) { return MatmulOrienter(graph, options.target).run(); }

// If all readers of rope permute the leading axes in the same way (and may then swap the last two), moves the transpose
// to the operand of rope. The kernels of rope read any strides and write a dense result, so queries and keys become
// contiguous for each head, as the matmuls of attention need them.
bool orient_rotations(Graph& graph, const PassOptions& options) {
  return RotationOrienter(graph, options.target).run();
}

}  // namespace ridgepoint
