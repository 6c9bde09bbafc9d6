// Activation checkpointing: backward computes values of the forward phase again instead of reading saved ones. A policy
// says which values may be computed again. The nodes that make such a value are copied, with the nodes that they depend
// on, directly before the first reader in backward, so that the value is live as short as possible. The copies have the
// phase recompute; they compute the same values from the same operands. The nested policy makes two copies of a node:
// one for the inputs of later blocks of its segment, and one for the backward of its own block.
#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/scope.h"
#include "passes/memory/block_tensors.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

class Recomputer {
 public:
  Recomputer(Graph& graph, const PassOptions& options)
      : graph_(graph),
        options_(options),
        readers_(graph),
        rewriter_(graph),
        is_activation_(values_of_data(graph)),
        position_(positions(graph)) {
    for (const std::string& block : blocks_of(graph)) segments_.emplace(block, segments_.size());
    for (auto& [block, number] : segments_) number /= static_cast<std::size_t>(options.checkpoint_segment);
    if (has_choices()) find_kept_nodes();
  }

  bool run() {
    const std::vector<NodeId> order = nodes_of(graph_);
    find_attention(order);
    for (const NodeId id : order) {
      if (graph_.node(id).phase == Phase::backward || graph_.node(id).phase == Phase::optimizer) read_copies(id);
    }
    return rewriter_.finish() || !copies_.empty();
  }

 private:
  // A copy of a node: for the backward of its own block, or for all other readers.
  struct Copy {
    NodeId node;
    bool is_for_own_block = false;
    auto operator<=>(const Copy&) const = default;
  };

  std::string_view block_of(NodeId id) const { return ridgepoint::block_of(graph_.scope_name(graph_.node(id))); }

  // Empty outside of blocks.
  std::optional<std::size_t> segment_of(std::string_view block) const {
    const auto found = segments_.find(block);
    return found == segments_.end() ? std::nullopt : std::optional(found->second);
  }

  bool is_product_of_activations(const Node& node) const {
    return node.op == Op::matmul && std::ranges::all_of(node.inputs, [&](Value v) { return is_activation_[v.id]; });
  }

  // The values between the two products of attention: the values that depend on a product of two activations, up to the
  // next product of this kind.
  void find_attention(const std::vector<NodeId>& order) {
    is_attention_.resize(graph_.value_count());
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      if (node.phase != Phase::forward) continue;
      const bool depends = std::ranges::any_of(node.inputs, [&](Value v) { return is_attention_[v.id]; });
      for (const Value value : node.outputs) is_attention_[value.id] = depends != is_product_of_activations(node);
    }
  }

  bool has_choices() const { return options_.checkpoint == Checkpoint::automatic && !options_.block_tensors.empty(); }

  void find_kept_nodes() {
    Graph chosen_of = graph_;  // as the choice saw it, with the copies that the next pass makes
    if (std::ranges::find(options_.skip, "recompute_norms") == options_.skip.end())
      recompute_norms(chosen_of, options_);
    for (const BlockTensors& tensors : tensors_of_blocks(chosen_of)) {
      const auto choices = options_.block_tensors.find(tensors.block);
      if (choices == options_.block_tensors.end()) continue;
      for (const BlockNode& node : tensors.nodes) {
        if (node.is_always_kept) kept_.insert(node.id);
        if (!node.tensor) continue;
        const auto choice = choices->second.find(tensors.names[*node.tensor]);
        if (choice != choices->second.end() && choice->second == Saving::keep) kept_.insert(node.id);
      }
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
    if (has_choices() && options_.block_tensors.contains(block))
      return !kept_.contains(id) && !is_read_elsewhere(node, segment_of(block));
    switch (policy_of(block)) {
      case Checkpoint::none:
      case Checkpoint::automatic: return false;
      case Checkpoint::attention: return is_attention_[node.outputs[0].id];
      case Checkpoint::selective:
        if (op_class(node.op) == OpClass::view) return true;
        if (node.op == Op::attention || node.op == Op::linear_attention || node.op == Op::grouped_matmul) return false;
        if (node.op == Op::matmul && !is_attention_[node.outputs[0].id]) return false;
        return !block.empty() && graph_.scope_name(node) != block;
      case Checkpoint::block:
      case Checkpoint::nested: return !block.empty() && !is_read_elsewhere(node, segment_of(block));
    }
    return false;
  }

  // Whether the forward phase or the loss reads a result outside of the segment.
  bool is_read_elsewhere(const Node& node, std::optional<std::size_t> segment) const {
    return std::ranges::any_of(node.outputs, [&](Value value) {
      return std::ranges::any_of(readers_.of(value), [&](NodeId reader) {
        const Phase phase = graph_.node(reader).phase;
        return (phase == Phase::forward || phase == Phase::loss) && segment_of(block_of(reader)) != segment;
      });
    });
  }

  void read_copies(NodeId reader) {
    const std::vector<Copy> missing = missing_copies(reader);
    if (!missing.empty()) rewriter_.insert_before(reader);
    for (const Copy& copy : missing) make(copy);
    read_copies(graph_.node(reader).inputs, block_of(reader));
  }

  // The copy of the producer that a reader needs. The reader is a node in backward of `block`, or a copy for that
  // backward.
  Copy copy_for(NodeId producer, std::string_view block) const {
    const bool is_nested = policy_of(block) == Checkpoint::nested;
    return {producer, is_nested && !block.empty() && block_of(producer) == block};
  }
  // The block that the copy is for, as copy_for() takes it.
  std::string_view block_for(const Copy& copy) const {
    return copy.is_for_own_block ? block_of(copy.node) : std::string_view{};
  }

  // The nodes to copy so that the reader reads only copies, in the order in which they ran.
  std::vector<Copy> missing_copies(NodeId reader) const {
    std::vector<Copy> missing;
    std::vector<std::pair<NodeId, std::string_view>> stack = {{reader, block_of(reader)}};
    while (!stack.empty()) {
      const auto [id, block] = stack.back();
      stack.pop_back();
      for (const Value value : graph_.node(id).inputs) {
        const NodeId producer = graph_.producer(value);
        const Copy copy = copy_for(producer, block);
        if (copies_.contains(copy) || !is_recomputed(producer)) continue;
        if (std::ranges::find(missing, copy) != missing.end()) continue;
        missing.push_back(copy);
        stack.emplace_back(producer, block_for(copy));
      }
    }
    std::ranges::sort(missing, {}, [&](const Copy& copy) { return position_[copy.node.id]; });
    return missing;
  }

  void make(const Copy& copy) {
    const Node& node = graph_.node(copy.node);
    std::vector<Value> inputs = node.inputs;
    read_copies(inputs, block_for(copy));
    Node& made = copy_node(graph_, graph_, node, inputs);
    made.phase = Phase::recompute;
    made.scope = node.scope;
    copies_.emplace(copy, graph_.producer(made.outputs[0]));
  }

  void read_copies(std::vector<Value>& values, std::string_view block) const {
    for (Value& value : values) {
      const NodeId producer = graph_.producer(value);
      const auto found = copies_.find(copy_for(producer, block));
      if (found == copies_.end()) continue;
      const std::vector<Value>& outputs = graph_.node(producer).outputs;
      const auto index = std::ranges::find(outputs, value) - outputs.begin();
      value = graph_.node(found->second).outputs[static_cast<std::size_t>(index)];
    }
  }

  Graph& graph_;
  const PassOptions& options_;
  Readers readers_;  // of the graph without copies
  Rewriter rewriter_;
  // By value id. Activations depend on data. Values that depend only on weights, such as casts of weights, are saved.
  const std::vector<bool> is_activation_;
  std::vector<bool> is_attention_;
  const std::vector<std::size_t> position_;                   // by node id
  std::map<std::string, std::size_t, std::less<>> segments_;  // by block; counted from the first
  std::set<NodeId> kept_;                                     // of the blocks in block_tensors
  std::map<Copy, NodeId> copies_;
};

}  // namespace

bool recompute_activations(Graph& graph, const PassOptions& options) {
  return options.checkpoint != Checkpoint::none && options.mode != Mode::forward && Recomputer(graph, options).run();
}

}  // namespace ridgepoint
