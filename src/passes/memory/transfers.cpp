#include "passes/memory/transfers.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/scope.h"
#include "ops/collectives.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// How many later transfers may begin before a copy to the host must have ended.
constexpr std::int64_t kInFlightOfGroup = 4;

// Gives the results of a transfer the layout of its operands.
void keep_layouts(Graph& graph, NodeId transfer) {
  Node& node = graph.node(transfer);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Node& producer = graph.producer_node(node.inputs[i]);
    const Shape& shape = graph.type(node.inputs[i]).shape;
    const auto result =
        static_cast<std::size_t>(std::ranges::find(producer.outputs, node.inputs[i]) - producer.outputs.begin());
    set_result_order(node, i, result_order(producer, result, shape.rank()));
    set_result_row(node, i, result_row(producer, result, shape));
  }
}

// A rank gathers parts of weights, or their casts, which only gathers read.
bool serves_gather(const Graph& graph, const Readers& readers, const Node& node) {
  const auto gathers_weights = [](const Node& of) { return is_gather_of(of, Gather::weights); };
  if (gathers_weights(node)) return true;
  const std::span<const NodeId> of = readers.of(node.outputs[0]);
  return node.op == Op::cast && !of.empty() &&
         std::ranges::all_of(of, [&](NodeId reader) { return gathers_weights(graph.node(reader)); });
}

class Fetcher {
 public:
  Fetcher(Graph& graph, const std::vector<NodeId>& order, const std::vector<ValueLayout>& layouts)
      : graph_(graph), order_(order), layouts_(layouts), rewriter_(graph) {}

  void run(std::vector<HostRead> reads) {
    std::ranges::stable_sort(reads, {}, &HostRead::first);
    std::vector<std::vector<HostRead>> groups;
    std::size_t bytes = 0;
    for (HostRead& read : reads) {
      bytes += storage_type(graph_, read.storage).bytes();
      if (groups.empty() || groups.back().front().visit != read.visit || bytes > kGroupBytes) {
        groups.emplace_back();
        bytes = storage_type(graph_, read.storage).bytes();
      }
      groups.back().push_back(std::move(read));
    }
    for (std::size_t i = 0; i < groups.size(); ++i) fetch(groups[i], i < kAhead ? 0 : groups[i - kAhead].front().first);
  }

 private:
  // Begins the copies of a group before the node at the position `place`, or as early as they may.
  void fetch(const std::vector<HostRead>& group, std::size_t place) {
    std::vector<Value> on_host;
    for (const HostRead& read : group) {
      on_host.push_back(read.on_host);
      place = std::max(place, read.earliest);
    }
    const Node& reader = graph_.node(group.front().readers.front());
    graph_.set_insertion_before(order_[std::min(place, group.front().first)]);
    graph_.set_phase(reader.phase == Phase::recompute ? Phase::backward : reader.phase);
    graph_.set_scope(block_of(graph_.scope_name(reader)));
    const std::vector<Value> fetched = copy_from_host(graph_, on_host);
    keep_layouts(graph_, graph_.producer(fetched[0]));
    for (std::size_t i = 0; i < group.size(); ++i) redirect(group[i], fetched[i]);
  }

  void redirect(const HostRead& read, Value fetched) {
    std::map<Value, Value> replaced = {{read.storage, fetched}};
    for (const NodeId reader : read.readers) {
      for (std::size_t i = 0; i < graph_.node(reader).inputs.size(); ++i) {
        const Value value = graph_.node(reader).inputs[i];
        const bool is_read = value.id < layouts_.size() && !layouts_[value.id].layout.immediate &&
                             layouts_[value.id].root == read.storage;
        if (!is_read) continue;
        const Value of_copy = view_of_copy(value, replaced);
        graph_.node(reader).inputs[i] = of_copy;
      }
    }
  }

  // The value, a view of the storage, as a view of the copy.
  Value view_of_copy(Value value, std::map<Value, Value>& replaced) {
    if (const auto known = replaced.find(value); known != replaced.end()) return known->second;
    const Value operand = view_of_copy(graph_.producer_node(value).inputs[0], replaced);
    return replaced[value] = rewriter_.rebuild_view(value, operand);
  }

  Graph& graph_;
  const std::vector<NodeId>& order_;
  const std::vector<ValueLayout>& layouts_;
  Rewriter rewriter_;
};

}  // namespace

std::vector<Value> store_group(Graph& graph, const std::vector<Value>& values) {
  std::vector<Value> stored = copy_to_host(graph, values);
  const NodeId transfer = graph.producer(stored[0]);
  keep_layouts(graph, transfer);
  graph.node(transfer).attributes.set(kInFlight, kInFlightOfGroup);
  return stored;
}

void redirect_updates(Graph& graph, const std::map<Value, Value>& stored) {
  const std::vector<Update> updates(graph.updates().begin(), graph.updates().end());
  graph.clear_updates();
  for (const Update& update : updates) {
    const auto found = stored.find(update.value);
    graph.add_update(update.input, found == stored.end() ? update.value : found->second);
  }
}

BlockVisits::BlockVisits(const Graph& graph) {
  std::string block;
  bool was_backward = false;
  std::size_t number = 0;
  const Readers readers(graph);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const std::string_view own = block_of(graph.scope_name(node));
    numbers.push_back(0);
    is_for_gather.push_back(false);
    if (!launches(node.op) || op_class(node.op) == OpClass::transfer) continue;
    if (node.phase == Phase::optimizer || own.empty()) continue;
    if (serves_gather(graph, readers, node)) {
      is_for_gather.back() = true;
      continue;
    }
    if (number == 0 || own != block || is_backward(node) != was_backward) ++number;
    block = own;
    was_backward = is_backward(node);
    numbers.back() = number;
  }
}

void fetch_ahead(Graph& graph, const std::vector<NodeId>& order, const std::vector<ValueLayout>& layouts,
                 std::vector<HostRead> reads) {
  Fetcher(graph, order, layouts).run(std::move(reads));
}

}  // namespace ridgepoint
