#include "passes/memory/block_tensors.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ir/queries.h"
#include "ir/scope.h"
#include "ops/node_key.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// A tensor with less than 1/kPartsOfBlock of the block's bytes has no choice of its own.
constexpr std::size_t kPartsOfBlock = 64;

// The nodes of the forward phase that have a copy in backward.
std::set<NodeId> nodes_with_copies(const Graph& graph) {
  std::map<std::string, NodeId> forward;  // by operation and operands
  std::map<Value, Value> original;        // by result of a copy
  std::set<NodeId> with_copies;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward && node.phase != Phase::recompute) continue;
    std::string key = operation_key(node);
    for (const Value operand : node.inputs) {
      const auto copied = original.find(operand);
      append_bits(key, copied == original.end() ? operand.id : copied->second.id);
    }
    if (node.phase == Phase::forward) {
      forward.emplace(std::move(key), id);
    } else if (const auto found = forward.find(key); found != forward.end()) {
      with_copies.insert(found->second);
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        original.emplace(node.outputs[i], graph.node(found->second).outputs[i]);
    }
  }
  return with_copies;
}

class BlockReader {
 public:
  BlockReader(const Graph& graph, const Readers& readers, const std::vector<bool>& is_activation,
              const std::set<NodeId>& with_copies, std::string block)
      : graph_(graph), readers_(readers), is_activation_(is_activation), with_copies_(with_copies) {
    tensors_.block = std::move(block);
  }

  void add(NodeId id) {
    const Node& node = graph_.node(id);
    if (op_class(node.op) == OpClass::view || !is_activation_[node.outputs[0].id]) return;
    index_.emplace(id.id, tensors_.nodes.size());
    tensors_.nodes.push_back({.id = id});
  }

  BlockTensors finish() {
    for (std::size_t i = 0; i < tensors_.nodes.size(); ++i) read(i);
    choose_tensors();
    return std::move(tensors_);
  }

 private:
  const Node& node_at(std::size_t index) const { return graph_.node(tensors_.nodes[index].id); }

  // Notes who reads the results of the node.
  void read(std::size_t index) {
    BlockNode& node = tensors_.nodes[index];
    const std::vector<Value>& outputs = node_at(index).outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      bool is_read_in_backward = false;
      visit_readers(outputs[i], [&](NodeId reader) {
        const Phase phase = graph_.node(reader).phase;
        if (phase == Phase::backward || phase == Phase::recompute || phase == Phase::optimizer) {
          is_read_in_backward = true;
        } else if (const auto found = index_.find(reader.id); found != index_.end()) {
          tensors_.nodes[found->second].operands.push_back({index, i});
        } else {
          node.is_always_kept = true;
        }
      });
      node.is_always_kept = node.is_always_kept || is_result(outputs[i]);
      if (is_read_in_backward) node.backward_reads.push_back(i);
    }
  }

  // The nodes that read the value's storage, once for each operand. A view of the forward phase that another block
  // reads counts as what it is a view of.
  template <typename Visitor>
  void visit_readers(Value value, const Visitor& visit) const {
    for (const NodeId reader : readers_.of(value)) {
      const Node& node = graph_.node(reader);
      if (op_class(node.op) != OpClass::view) {
        visit(reader);
        continue;
      }
      for (const Value view : node.outputs) visit_readers(view, visit);
    }
  }

  bool is_result(Value value) const {
    if (readers_.is_result(value)) return true;
    return std::ranges::any_of(readers_.of(value), [&](NodeId reader) {
      const Node& node = graph_.node(reader);
      return op_class(node.op) == OpClass::view &&
             std::ranges::any_of(node.outputs, [&](Value view) { return is_result(view); });
    });
  }

  static bool is_product(const Node& node) {
    return op_class(node.op) == OpClass::contraction || op_class(node.op) == OpClass::experts;
  }

  // The bytes that a choice is worth: the results that backward reads, or all results of a product that it does not
  // read.
  std::size_t bytes_of(std::size_t index) const {
    const BlockNode& node = tensors_.nodes[index];
    const Node& of = node_at(index);
    std::size_t bytes = 0;
    if (node.is_always_kept || with_copies_.contains(node.id)) return 0;
    if (node.backward_reads.empty() && is_product(of)) {
      for (const Value value : of.outputs) bytes += graph_.type(value).bytes();
    }
    for (const std::size_t output : node.backward_reads) bytes += graph_.type(of.outputs[output]).bytes();
    return bytes;
  }

  void choose_tensors() {
    std::vector<std::size_t> bytes(tensors_.nodes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = bytes_of(i);
    const std::size_t all = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
    std::map<std::string, std::size_t> known;  // equal nodes of equal operands are one later
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == 0 || bytes[i] < all / kPartsOfBlock) continue;
      std::string key = operation_key(node_at(i));
      for (const Value operand : node_at(i).inputs) key += "," + std::to_string(operand.id);
      const auto [found, is_new] = known.emplace(std::move(key), tensors_.names.size());
      if (is_new) tensors_.names.push_back(unused_name(i));
      tensors_.nodes[i].tensor = found->second;
    }
    // From the last to the first, so that one small node after another joins the same tensor. Small nodes that lead to
    // no tensor share one choice, if together they are no smaller than a tensor.
    std::vector<std::size_t> small;
    std::size_t small_bytes = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      if (bytes[i] == 0 || tensors_.nodes[i].tensor || joins_reader(i)) continue;
      small.push_back(i);
      small_bytes += bytes[i];
    }
    const bool have_choice = small_bytes > 0 && small_bytes >= all / kPartsOfBlock;
    for (const std::size_t i : small) {
      if (have_choice) tensors_.nodes[i].tensor = tensors_.names.size();
      tensors_.nodes[i].is_always_kept = !have_choice;
    }
    if (have_choice) tensors_.names.emplace_back("small results");
  }

  // A small node has the choice of the next tensor that is made of it: the statistics of a norm have the choice of the
  // norm's result.
  bool joins_reader(std::size_t index) {
    std::vector<bool> is_made_of_it(tensors_.nodes.size());
    is_made_of_it[index] = true;
    for (std::size_t i = index + 1; i < tensors_.nodes.size(); ++i) {
      const BlockNode& node = tensors_.nodes[i];
      if (std::ranges::none_of(node.operands, [&](const BlockValue& v) { return is_made_of_it[v.node]; })) continue;
      if (node.tensor && !is_product(node_at(i))) {
        tensors_.nodes[index].tensor = node.tensor;
        return true;
      }
      is_made_of_it[i] = !node.tensor;
    }
    return false;
  }

  // The module within the block, and the op; a cast has the name of its operand.
  std::string unused_name(std::size_t index) const {
    std::size_t named = index;
    while (node_at(named).op == Op::cast && !tensors_.nodes[named].operands.empty())
      named = tensors_.nodes[named].operands.front().node;
    const Node& node = node_at(named);
    std::string_view scope = graph_.scope_name(node);
    scope.remove_prefix(std::min(scope.size(), tensors_.block.size() + 1));
    const std::string base = std::string(scope) + (scope.empty() ? "" : " ") + std::string(name(node.op));
    std::string unused = base;
    for (int count = 2; std::ranges::find(tensors_.names, unused) != tensors_.names.end(); ++count)
      unused = base + " " + std::to_string(count);
    return unused;
  }

  const Graph& graph_;
  const Readers& readers_;
  const std::vector<bool>& is_activation_;
  const std::set<NodeId>& with_copies_;
  BlockTensors tensors_;
  std::unordered_map<std::uint32_t, std::size_t> index_;  // of nodes, by id
};

}  // namespace

std::vector<BlockTensors> tensors_of_blocks(const Graph& graph) {
  const Readers readers(graph);
  const std::vector<bool> is_activation = values_of_data(graph);
  const std::set<NodeId> with_copies = nodes_with_copies(graph);
  std::vector<BlockReader> blocks;
  std::map<std::string, std::size_t, std::less<>> index;
  for (const std::string& block : blocks_of(graph)) {
    index.emplace(block, blocks.size());
    blocks.emplace_back(graph, readers, is_activation, with_copies, block);
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward || node.op == Op::input) continue;
    const auto found = index.find(block_of(graph.scope_name(node)));
    if (found != index.end()) blocks[found->second].add(id);
  }
  std::vector<BlockTensors> tensors;
  for (BlockReader& block : blocks) tensors.push_back(block.finish());
  return tensors;
}

}  // namespace ridgepoint
