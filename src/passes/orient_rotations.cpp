// Lets rope write its result the way its readers take it: where every reader moves the axes before the last in one way
// (and may swap the last two after that), they are moved before the rotation instead, whose kernels read any strides.
// Queries and keys then lie head by head, as the products of attention want them.
#include <algorithm>
#include <numeric>
#include <optional>

#include "passes/pass.h"
#include "passes/queries.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

using Permutation = std::vector<std::int64_t>;

class RotationOrienter {
 public:
  explicit RotationOrienter(Graph& graph) : graph_(graph), readers_(graph) {}

  bool run() {
    const std::vector<NodeId> order(graph_.order().begin(), graph_.order().end());
    for (const NodeId id : order) {
      if (graph_.node(id).op != Op::rope) continue;
      if (const std::optional<Permutation> permutation = shared_permutation(graph_.node(id))) orient(id, *permutation);
    }
    graph_.replace_uses(replacements_);
    graph_.erase(replaced_);
    return !replaced_.empty();
  }

 private:
  // How a reader moves the axes before the last, which stays in place or ends one before it.
  std::optional<Permutation> leading_permutation(const Node& reader) const {
    if (reader.op != Op::transpose) return std::nullopt;
    Permutation permutation = reader.attributes.get<Permutation>("permutation");
    const auto last = static_cast<std::int64_t>(permutation.size()) - 1;
    if (permutation.end()[-2] == last) std::swap(permutation.end()[-1], permutation.end()[-2]);
    if (permutation.back() != last) return std::nullopt;
    return permutation;
  }

  // Empty where readers differ or nothing moves.
  std::optional<Permutation> shared_permutation(const Node& node) const {
    const std::vector<NodeId>& readers = readers_.of(node.outputs[0]);
    if (readers.empty() || readers_.is_result(node.outputs[0])) return std::nullopt;
    const std::optional<Permutation> shared = leading_permutation(graph_.node(readers.front()));
    if (!shared || std::is_sorted(shared->begin(), shared->end())) return std::nullopt;
    const bool agree = std::all_of(readers.begin(), readers.end(),
                                   [&](NodeId reader) { return leading_permutation(graph_.node(reader)) == shared; });
    return agree ? shared : std::nullopt;
  }

  void orient(NodeId id, const Permutation& permutation) {
    const Node& node = graph_.node(id);
    graph_.set_insertion_before(id);
    graph_.set_phase(node.phase);
    graph_.set_scope(graph_.scope_name(node));
    const auto axis =
        std::find(permutation.begin(), permutation.end(),
                  normalise_axis(node.attributes.get<std::int64_t>("axis"), static_cast<int>(permutation.size())));
    const Value rotated = rope(graph_, transpose(graph_, node.inputs[0], permutation), node.inputs[1], node.inputs[2],
                               static_cast<int>(axis - permutation.begin()), node.attributes.get<bool>("inverse"));
    Permutation swap(permutation.size());
    std::iota(swap.begin(), swap.end(), 0);
    std::swap(swap.end()[-1], swap.end()[-2]);
    for (const NodeId id_of_reader : readers_.of(node.outputs[0])) {
      const Node& reader = graph_.node(id_of_reader);
      const bool keeps_last = reader.attributes.get<Permutation>("permutation") == permutation;
      replacements_.emplace_back(reader.outputs[0], keeps_last ? rotated : transpose(graph_, rotated, swap));
      replaced_.push_back(id_of_reader);
    }
    replaced_.push_back(id);
  }

  Graph& graph_;
  Readers readers_;
  std::vector<std::pair<Value, Value>> replacements_;
  std::vector<NodeId> replaced_;
};

}  // namespace

bool orient_rotations(Graph& graph, const PassOptions&) { return RotationOrienter(graph).run(); }

}  // namespace ridgepoint
