#include "passes/fusion/fused_body.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "ops/node_key.h"
#include "ops/rule.h"

namespace ridgepoint {
namespace {

// Ops that the name of a kernel lists.
constexpr std::size_t kMostNames = 4;

// Lists what the body of a group copies of the graph, and makes the body. The list is cheap, and equal lists make equal
// bodies.
class BodyBuilder {
 public:
  BodyBuilder(const Graph& graph, const Storage& storage, std::span<const NodeId> members, Composites composites)
      : graph_(graph), storage_(storage), members_(members), composites_(composites) {
    key_ += composites == Composites::kept ? 'k' : 'd';
    for (const NodeId id : members_) list(id, true);
    for (const NodeId id : members_) {
      for (const Value value : graph_.node(id).outputs) {
        if (!is_read_outside(value)) continue;
        results_.push_back(value);
        append_bits(key_, find(value));
      }
    }
  }

  // Everything that the body depends on.
  const std::string& key() const { return key_; }
  const std::vector<Value>& inputs() const { return inputs_; }
  const std::vector<Value>& results() const { return results_; }

  std::shared_ptr<const FusedBody> build() const {
    Graph body;
    body.name = name();
    std::vector<Value> made;  // by number
    std::size_t inputs = 0;
    for (const Item& item : items_) {
      if (!item.node.valid()) {
        const Value value = values_[made.size()];
        made.push_back(input(body, std::to_string(inputs++), graph_.type(value), Role::data));
        continue;
      }
      std::vector<Value> operands;
      for (const std::uint32_t number : item.operands) operands.push_back(made[number]);
      const Node& node = copy_node(body, graph_, graph_.node(item.node), operands);
      made.insert(made.end(), node.outputs.begin(), node.outputs.end());
    }
    for (std::size_t i = 0; i < results_.size(); ++i) body.add_output(std::to_string(i), made[find(results_[i])]);
    decompose(body);
    return std::make_shared<const FusedBody>(std::move(body));
  }

 private:
  // A node that the body copies, with the numbers of its operands; or an input, without a node.
  struct Item {
    NodeId node;
    std::vector<std::uint32_t> operands;
  };

  std::string name() const {
    std::vector<Op> ops;
    for (const NodeId id : members_) {
      const Op op = graph_.node(id).op;
      if (op != Op::cast && std::ranges::find(ops, op) == ops.end()) ops.push_back(op);
    }
    if (ops.empty()) ops.push_back(Op::cast);
    std::string text = "fused";
    for (std::size_t i = 0; i < std::min(ops.size(), kMostNames); ++i)
      text += "_" + (ops[i] == Op::fused ? inner_names() : std::string(ridgepoint::name(ops[i])));
    return text;
  }

  // What the name of the only fused member lists.
  std::string inner_names() const {
    const auto fused = std::ranges::find_if(members_, [&](NodeId id) { return graph_.node(id).op == Op::fused; });
    const std::string& name = graph_.node(*fused).body->graph.name;
    return name.substr(std::min(name.size(), std::string("fused_").size()));
  }

  bool is_member(NodeId id) const { return std::ranges::find(members_, id) != members_.end(); }

  bool is_read_outside(Value value) const {
    return storage_.is_result(value) ||
           std::ranges::any_of(storage_.readers(value), [&](NodeId reader) { return !is_member(reader); });
  }

  void list(NodeId id, bool is_member) {
    const Node& node = graph_.node(id);
    Item item{id, {}};
    for (const Value value : node.inputs) item.operands.push_back(operand(value));
    key_ += is_member ? 'm' : 'n';
    append_bits(key_, node.op);
    append_bits(key_, node.origin.has_value());
    append_bits(key_, node.origin.value_or(node.op));
    append_bits(key_, reinterpret_cast<std::uintptr_t>(node.body.get()));
    append_attributes(key_, node.attributes);
    append_bits(key_, item.operands.size());
    for (const std::uint32_t number : item.operands) append_bits(key_, number);
    append_bits(key_, node.outputs.size());
    for (const Value value : node.outputs) add_value(value);
    items_.push_back(std::move(item));
  }

  // Views of the group's values and nodes with is_repeated() are copied too; other values become inputs.
  std::uint32_t operand(Value value) {
    if (const std::uint32_t known = find(value); known < values_.size()) return known;
    const NodeId root = graph_.producer(storage_.root(value));
    if (is_repeated(graph_.node(root)) || is_member(root)) {
      list(graph_.producer(value), false);
    } else {
      key_ += 'i';
      add_value(value);
      items_.push_back({});
      inputs_.push_back(value);
    }
    return find(value);
  }

  // The number of the value, or the next free number if it has none.
  std::uint32_t find(Value value) const {
    std::size_t at = values_.size();
    while (at > 0 && values_[at - 1] != value) --at;
    return static_cast<std::uint32_t>(at > 0 ? at - 1 : values_.size());
  }

  void add_value(Value value) {
    append_labelled_type(key_, graph_.type(value));
    values_.push_back(value);
  }

  void decompose(Graph& body) const {
    Rewriter rewriter(body);
    for (const NodeId id : nodes_of(body)) {
      const Node& node = body.node(id);
      const bool is_kept = composites_ == Composites::kept || op_class(node.op) != OpClass::composite;
      if (is_kept && node.op != Op::fused) continue;
      rewriter.insert_before(id);
      rewriter.replace(id, decompose_fully(body, node));
    }
    rewriter.finish();
    eliminate_dead_code(body, PassOptions());
  }

  const Graph& graph_;
  const Storage& storage_;
  std::span<const NodeId> members_;
  Composites composites_;
  std::string key_;
  std::vector<Item> items_;
  std::vector<Value> values_;  // of the graph, by number
  std::vector<Value> inputs_, results_;
};

std::vector<Value> roots_of(const Graph& graph) {
  std::vector<Value> roots(graph.value_count());
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool is_view = op_class(node.op) == OpClass::view;
    for (const Value value : node.outputs) roots[value.id] = is_view ? roots[node.inputs[0].id] : value;
  }
  return roots;
}

}  // namespace

Storage::Storage(const Graph& graph)
    : roots_(roots_of(graph)),
      readers_(graph.value_count(), [&](const auto& add) { visit_reads(graph, false, add); }),
      views_(graph.value_count(), [&](const auto& add) { visit_reads(graph, true, add); }),
      is_result_(graph.value_count()) {
  const std::vector<bool> results = results_of(graph);
  for (std::size_t id = 0; id < results.size(); ++id) {
    if (results[id]) is_result_[roots_[id].id] = true;
  }
}

// Calls add(root, node) for each operand of the views, or of the other nodes, in the order of execution.
template <typename Add>
void Storage::visit_reads(const Graph& graph, bool of_views, const Add& add) const {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if ((op_class(node.op) == OpClass::view) != of_views) continue;
    for (const Value operand : node.inputs) add(root(operand), id);
  }
}

bool is_elementwise_composite(const Node& node) {
  return op_class(node.op) == OpClass::composite && traits(node.op).kernel_class == KernelClass::elementwise &&
         node.op != Op::rope && node.op != Op::quantise && node.op != Op::causal_convolution;
}

bool is_elementwise(const Node& node) {
  return is_elementwise_composite(node) ||
         (op_class(node.op) == OpClass::elementwise && traits(node.op).kernel_class == KernelClass::elementwise);
}

bool is_norm(const Node& node) {
  return op_class(node.op) == OpClass::composite && traits(node.op).kernel_class == KernelClass::norm;
}

bool can_fuse(const Node& node) {
  if (node.phase == Phase::optimizer) return false;
  switch (op_class(node.op)) {
    case OpClass::elementwise: return node.op != Op::iota;
    case OpClass::reduction: return true;
    case OpClass::composite: {
      const KernelClass kind = traits(node.op).kernel_class;
      return is_elementwise_composite(node) || kind == KernelClass::softmax || kind == KernelClass::norm;
    }
    default: return false;
  }
}

bool is_made_by_rows(const Graph& graph, NodeId maker, std::span<const Value> parts) {
  const Node& node = graph.node(maker);
  const bool is_row_wise = node.op == Op::fused ? !has_op_of(node.body->graph, OpClass::contraction) : can_fuse(node);
  // A kernel that reduces rows does not transpose its operands through shared memory.
  const std::function<bool(Value)> is_transposed = [&](Value value) {
    const Node& view = graph.producer_node(value);
    return op_class(view.op) == OpClass::view && (view.op == Op::transpose || is_transposed(view.inputs[0]));
  };
  return is_row_wise && !node.attributes.get_or(kAccumulates, false) &&
         std::ranges::none_of(node.inputs, is_transposed) && std::ranges::all_of(parts, [&](Value part) {
           return std::ranges::find(node.outputs, part) != node.outputs.end() &&
                  graph.type(part).shape == graph.type(parts.front()).shape;
         });
}

std::vector<std::size_t> result_numbers(const Node& node, std::span<const Value> parts) {
  std::vector<std::size_t> numbers;
  for (const Value part : parts)
    numbers.push_back(static_cast<std::size_t>(std::ranges::find(node.outputs, part) - node.outputs.begin()));
  return numbers;
}

Graph body_to_extend(const Graph& graph, const Node& node, std::string_view end) {
  Graph body = body_of(graph, node);
  body.name = (node.body == nullptr ? "fused_" : "") + body.name + std::string(end);
  return body;
}

bool is_repeated(const Node& node) { return node.op == Op::constant || node.op == Op::iota; }

Fusion fuse(const Graph& graph, const Storage& storage, std::span<const NodeId> members, Composites composites) {
  const BodyBuilder builder(graph, storage, members, composites);
  return {builder.inputs(), builder.results(), builder.build()};
}

Fusion NodeFuser::fuse(std::span<const NodeId> members, Composites composites) {
  const BodyBuilder builder(graph_, storage_, members, composites);
  std::shared_ptr<const FusedBody>& body = body_of_[builder.key()];
  if (body == nullptr) {
    body = builder.build();
    body = body_with_text_.try_emplace(body->text, body).first->second;
  }
  return {builder.inputs(), builder.results(), body};
}

bool NodeFuser::has_kernel(const Fusion& fusion) const {
  Node node;
  node.op = Op::fused;
  node.inputs = fusion.inputs;
  node.outputs = fusion.results;
  node.body = fusion.body;
  return target_.has_kernel(graph_, node);
}

bool NodeFuser::is_read_before(Value root, NodeId place) const {
  return std::ranges::any_of(storage_.readers(root),
                             [&](NodeId reader) { return position_[reader.id] < position_[place.id]; });
}

Node& NodeFuser::insert(const Fusion& fusion, NodeId place, NodeId leader) {
  rewriter_.insert_before(place, graph_.scope_name(graph_.node(leader)));
  Node& made = graph_.node(add_fused(graph_, fusion.inputs, fusion.body));
  for (std::size_t i = 0; i < fusion.results.size(); ++i) {
    rewriter_.replace(fusion.results[i], made.outputs[i]);
    move_views(fusion.results[i], made.outputs[i], place);
  }
  return made;
}

void NodeFuser::move_views(Value before, Value after, NodeId place) {
  std::map<Value, Value> moved = {{before, after}};
  for (const NodeId id : storage_.views(before)) {
    if (position_[id.id] > position_[place.id]) continue;
    const Node& view = graph_.node(id);
    const Value made = rewriter_.rebuild_view(view.outputs[0], moved.at(view.inputs[0]));
    const std::vector<Value> results = graph_.producer_node(made).outputs;
    for (std::size_t i = 0; i < results.size(); ++i) moved[view.outputs[i]] = results[i];
    rewriter_.replace(id, results);
  }
}

void NodeFuser::remove(std::span<const NodeId> members, const Fusion& fusion) {
  for (const NodeId id : members) {
    rewriter_.remove(id);
    for (const Value value : graph_.node(id).outputs) {
      if (std::ranges::find(fusion.results, value) != fusion.results.end()) continue;
      for (const NodeId view : storage_.views(value)) rewriter_.remove(view);
    }
  }
}

}  // namespace ridgepoint
