// If products of backward read the result of a norm, backward computes it again from the residual stream, which it
// keeps anyway. A rank then saves no operand of its projections. Elementwise ops after the norm, such as a cast, are
// copied with it. torch.compile computes the same values again. The copies have the phase recompute, and stand before
// the first reader in backward.
// Each copy takes the time to read and write memory once. So the pass runs only if the ranks also divide the
// parameters: such runs have the least memory. Operands that no norm makes, such as the operand of SwiGLU's second
// product, are left to activation checkpointing (the policy selective): computing them again saves more memory and
// takes longer.
#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "ir/rewriter.h"
#include "passes/fusion/fused_body.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

bool is_product(const Node& node) { return op_class(node.op) == OpClass::contraction; }

class NormRecomputer {
 public:
  explicit NormRecomputer(Graph& graph) : graph_(graph), storage_(graph), rewriter_(graph) {}

  bool run() {
    bool changed = false;
    for (const NodeId id : nodes_of(graph_)) changed = visit(id) || changed;
    return changed;
  }

 private:
  bool is_in_backward(NodeId id) const { return graph_.node(id).phase == Phase::backward; }

  // Of forward, by one kernel that reads its operands once.
  static bool may_be_copied(const Node& node) {
    if (node.phase != Phase::forward || is_repeated(node)) return false;
    return is_elementwise(node) || is_norm(node);
  }

  bool is_kept(Value value) const {
    const Value root = storage_.root(value);
    const Node& producer = graph_.producer_node(root);
    return op_class(producer.op) == OpClass::state || is_repeated(producer) ||
           std::ranges::any_of(storage_.readers(root), [&](NodeId id) { return is_in_backward(id); });
  }

  // The operand of a copy: a copy too, if the copy needs only values that backward reads.
  bool is_copied_too(Value operand) const {
    return known(copied_too_, operand, [&] { return find_copied_too(operand); });
  }

  bool find_copied_too(Value operand) const {
    const Node& producer = graph_.producer_node(operand);
    if (!may_be_copied(producer) || operand != producer.outputs[0]) return false;
    if (is_kept(operand)) return std::ranges::all_of(producer.inputs, [&](Value of) { return is_kept(of); });
    return can_copy(producer);
  }

  bool can_copy(const Node& node) const {
    return may_be_copied(node) &&
           std::ranges::all_of(node.inputs, [&](Value operand) { return is_copied_too(operand) || is_kept(operand); });
  }

  // Whether a norm is among what is copied.
  bool copies_norm(const Node& node) const {
    return known(copies_norm_, node.outputs[0], [&] {
      return is_norm(node) || std::ranges::any_of(node.inputs, [&](Value operand) {
               return is_copied_too(operand) && copies_norm(graph_.producer_node(operand));
             });
    });
  }

  // The answer for a value of the graph without copies. Without this, values that are read twice would be asked for 2^n
  // times.
  template <typename Find>
  static bool known(std::map<Value, bool>& answers, Value value, const Find& find) {
    if (const auto found = answers.find(value); found != answers.end()) return found->second;
    return answers[value] = find();
  }

  // Of one visit: `copies` has what it has copied.
  Value copy(Value value, std::map<Value, Value>& copies) {
    if (const auto found = copies.find(value); found != copies.end()) return found->second;
    const Node node = graph_.producer_node(value);
    std::vector<Value> operands;
    for (const Value operand : node.inputs)
      operands.push_back(is_copied_too(operand) ? copy(operand, copies) : operand);
    Node& made = copy_node(graph_, graph_, node, operands);
    made.phase = Phase::recompute;
    made.scope = node.scope;
    return copies[value] = made.outputs[0];
  }

  bool visit(NodeId id) {
    const Node& node = graph_.node(id);
    const Value value = node.outputs[0];
    if (storage_.root(value) != value || storage_.is_result(value)) return false;
    if (!can_copy(node) || !copies_norm(node)) return false;
    std::vector<NodeId> readers;
    std::ranges::copy_if(storage_.readers(value), std::back_inserter(readers),
                         [&](NodeId reader) { return is_in_backward(reader); });
    if (readers.empty() ||
        !std::ranges::all_of(readers, [&](NodeId reader) { return is_product(graph_.node(reader)); }))
      return false;
    rewriter_.insert_before(readers.front());
    std::map<Value, Value> copies;
    const Value again = copy(value, copies);
    for (const NodeId reader : readers) {
      for (std::size_t i = 0; i < graph_.node(reader).inputs.size(); ++i) {
        const Value operand = graph_.node(reader).inputs[i];
        if (storage_.root(operand) != value) continue;
        const Value read = view_of(again, operand, value);
        graph_.node(reader).inputs[i] = read;
      }
    }
    return true;
  }

  // The views through which `operand` is the value, of its copy.
  Value view_of(Value again, Value operand, Value value) {
    if (operand == value) return again;
    const Value below = graph_.producer_node(operand).inputs[0];
    const Value copied = view_of(again, below, value);
    const Value view = rewriter_.rebuild_view(operand, copied);
    graph_.node(graph_.producer(view)).phase = Phase::recompute;
    return view;
  }

  Graph& graph_;
  const Storage storage_;  // before any copy
  Rewriter rewriter_;
  mutable std::map<Value, bool> copied_too_, copies_norm_;
};

}  // namespace

bool recompute_norms(Graph& graph, const PassOptions& options) {
  const bool is_divided = options.parallel.is_parallel() && options.parallel.shard == Sharding::parameters;
  if (!is_divided || options.level == Compile::off || options.mode == Mode::forward) return false;
  return NormRecomputer(graph).run();
}

}  // namespace ridgepoint
