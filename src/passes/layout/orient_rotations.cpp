// Moves a transpose from the readers of rope to its operand, where all readers permute the leading axes in the same way
// (and may then swap the last two). The kernels of rope read any strides and write a dense result, so queries and keys
// become contiguous for each head, as the matmuls of attention need them.
#include <algorithm>
#include <optional>

#include "ir/permutation.h"
#include "passes/node_rewriter.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

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
    const std::vector<NodeId>& readers = readers_.of(node.outputs[0]);
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

bool orient_rotations(Graph& graph, const PassOptions& options) {
  return RotationOrienter(graph, options.target).run();
}

}  // namespace ridgepoint
