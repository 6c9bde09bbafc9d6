// Activation checkpointing: backward computes values of the forward phase again instead of reading saved ones. A policy
// says which values may be computed again. Copies of the nodes that make them, and of the nodes that those need, go
// directly before the first reader in backward, so that a value is live no longer than it must be. The copies are of
// the phase recompute; they compute the same values from the same operands.
#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/scope.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

class Recomputer {
 public:
  Recomputer(Graph& graph, const CompileOptions& options)
      : graph_(graph),
        options_(options),
        readers_(graph),
        rewriter_(graph),
        is_activation_(values_of_data(graph)),
        position_(positions(graph)) {}

  bool run() {
    const std::vector<NodeId> order = nodes_of(graph_);
    find_attention(order);
    for (const NodeId id : order) {
      if (graph_.node(id).phase == Phase::backward || graph_.node(id).phase == Phase::optimizer) read_copies(id);
    }
    return rewriter_.finish() || !copies_.empty();
  }

 private:
  std::string_view block_of(NodeId id) const { return ridgepoint::block_of(graph_.scope_name(graph_.node(id))); }

  bool is_product_of_activations(const Node& node) const {
    return node.op == Op::matmul && std::ranges::all_of(node.inputs, [&](Value v) { return is_activation_[v.id]; });
  }

  // The values between the two products of attention: those that depend on a product of two activations, up to the next
  // such product.
  void find_attention(const std::vector<NodeId>& order) {
    is_attention_.resize(graph_.value_count());
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::forward) continue;
      const bool depends = std::ranges::any_of(node.inputs, [&](Value v) { return is_attention_[v.id]; });
      for (const Value value : node.outputs) is_attention_[value.id] = depends != is_product_of_activations(node);
    }
  }

  // `block` is empty outside of blocks.
  Checkpoint policy_of(std::string_view block) const {
    if (options_.checkpoint != Checkpoint::automatic) return options_.checkpoint;
    const auto found = options_.block_checkpoints.find(block);
    return found == options_.block_checkpoints.end() ? Checkpoint::none : found->second;
  }

  // Whether the policy lets backward compute the results of the node again.
  bool is_recomputed(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.phase != Phase::forward || node.op == Op::input || !is_activation_[node.outputs[0].id]) return false;
    if (std::ranges::any_of(node.outputs, [&](Value value) { return readers_.is_result(value); })) return false;
    const std::string_view block = block_of(id);
    switch (policy_of(block)) {
      case Checkpoint::none:
      case Checkpoint::automatic: return false;
      case Checkpoint::attention: return is_attention_[node.outputs[0].id];
      case Checkpoint::selective:
        if (op_class(node.op) == OpClass::view) return true;
        if (node.op == Op::attention || node.op == Op::grouped_matmul) return false;
        if (node.op == Op::matmul && !is_attention_[node.outputs[0].id]) return false;
        return !block.empty() && graph_.scope_name(node) != block;
      case Checkpoint::block: return !block.empty() && !is_read_elsewhere(node, block);
    }
    return false;
  }

  // Whether the forward phase or the loss reads a result outside of the block.
  bool is_read_elsewhere(const Node& node, std::string_view block) const {
    return std::ranges::any_of(node.outputs, [&](Value value) {
      return std::ranges::any_of(readers_.of(value), [&](NodeId reader) {
        const Phase phase = graph_.node(reader).phase;
        return (phase == Phase::forward || phase == Phase::loss) && block_of(reader) != block;
      });
    });
  }

  void read_copies(NodeId reader) {
    std::vector<NodeId> missing = missing_copies(reader);
    if (!missing.empty()) rewriter_.insert_before(reader);
    for (const NodeId id : missing) copy(id);
    for (Value& value : graph_.node(reader).inputs) value = copy_of(value);
  }

  // The nodes to copy before the reader can read copies alone, in the order in which they ran.
  std::vector<NodeId> missing_copies(NodeId reader) const {
    std::vector<NodeId> missing, stack = {reader};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      for (const Value value : graph_.node(id).inputs) {
        const NodeId producer = graph_.producer(value);
        if (copies_.contains(producer) || !is_recomputed(producer)) continue;
        if (std::ranges::find(missing, producer) != missing.end()) continue;
        missing.push_back(producer);
        stack.push_back(producer);
      }
    }
    std::ranges::sort(missing, {}, [&](NodeId id) { return position_[id.id]; });
    return missing;
  }

  void copy(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<Value> inputs;
    for (const Value value : node.inputs) inputs.push_back(copy_of(value));
    Node& copy = copy_node(graph_, graph_, node, inputs);
    copy.phase = Phase::recompute;
    copy.scope = node.scope;
    copies_.emplace(id, graph_.producer(copy.outputs[0]));
  }

  Value copy_of(Value value) const {
    const NodeId producer = graph_.producer(value);
    const auto found = copies_.find(producer);
    if (found == copies_.end()) return value;
    const std::vector<Value>& outputs = graph_.node(producer).outputs;
    const auto index = std::ranges::find(outputs, value) - outputs.begin();
    return graph_.node(found->second).outputs[static_cast<std::size_t>(index)];
  }

  Graph& graph_;
  const CompileOptions& options_;
  Readers readers_;  // of the graph without copies
  Rewriter rewriter_;
  // By value id. Activations depend on data; what depends on weights alone, such as their casts, is saved.
  const std::vector<bool> is_activation_;
  std::vector<bool> is_attention_;
  const std::vector<std::size_t> position_;  // by node id
  std::map<NodeId, NodeId> copies_;
};

}  // namespace

bool recompute_activations(Graph& graph, const PassOptions& options) {
  return options.checkpoint != Checkpoint::none && options.mode != Mode::forward && Recomputer(graph, options).run();
}

}  // namespace ridgepoint
