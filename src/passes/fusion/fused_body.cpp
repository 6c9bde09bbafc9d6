#include "passes/fusion/fused_body.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ops/rule.h"

namespace ridgepoint {
namespace {

// Ops that the name of a kernel lists.
constexpr std::size_t kMostNames = 4;

// Copies the members of a group to a body.
class BodyBuilder {
 public:
  BodyBuilder(const Graph& graph, const Storage& storage, std::span<const NodeId> members, Composites composites)
      : graph_(graph), storage_(storage), members_(members), composites_(composites) {}

  Fusion build() {
    body_.name = name();
    for (const NodeId id : members_) copy(id);
    for (const NodeId id : members_) {
      for (const Value value : graph_.node(id).outputs) {
        if (!is_read_outside(value)) continue;
        body_.add_output(std::to_string(fusion_.results.size()), inner_.at(value));
        fusion_.results.push_back(value);
      }
    }
    decompose();
    fusion_.body = std::make_shared<const FusedBody>(std::move(body_));
    return std::move(fusion_);
  }

 private:
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

  void copy(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<Value> operands;
    for (const Value value : node.inputs) operands.push_back(operand(value));
    const Node& made = copy_node(body_, graph_, node, operands);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) inner_[node.outputs[i]] = made.outputs[i];
  }

  // Views of the group's values, and what is_repeated() holds for, are copied too; other values become inputs.
  Value operand(Value value) {
    if (const auto known = inner_.find(value); known != inner_.end()) return known->second;
    const NodeId root = graph_.producer(storage_.root(value));
    if (is_repeated(graph_.node(root)) || is_member(root)) {
      copy(graph_.producer(value));
    } else {
      inner_[value] = input(body_, std::to_string(fusion_.inputs.size()), graph_.type(value), Role::data);
      fusion_.inputs.push_back(value);
    }
    return inner_.at(value);
  }

  void decompose() {
    Rewriter rewriter(body_);
    for (const NodeId id : nodes_of(body_)) {
      const Node& node = body_.node(id);
      const bool is_kept = composites_ == Composites::kept || op_class(node.op) != OpClass::composite;
      if (is_kept && node.op != Op::fused) continue;
      rewriter.insert_before(id);
      rewriter.replace(id, decompose_fully(body_, node));
    }
    rewriter.finish();
    eliminate_dead_code(body_, PassOptions());
  }

  const Graph& graph_;
  const Storage& storage_;
  std::span<const NodeId> members_;
  Composites composites_;
  Graph body_;
  std::map<Value, Value> inner_;  // values of the graph in the body
  Fusion fusion_;
};

}  // namespace

Storage::Storage(const Graph& graph)
    : roots_(graph.value_count()),
      readers_(graph.value_count()),
      views_(graph.value_count()),
      is_result_(graph.value_count()) {
  const std::vector<bool> results = results_of(graph);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool is_view = op_class(node.op) == OpClass::view;
    for (const Value operand : node.inputs) (is_view ? views_ : readers_)[root(operand).id].push_back(id);
    for (const Value value : node.outputs) {
      roots_[value.id] = is_view ? root(node.inputs[0]) : value;
      if (results[value.id]) is_result_[roots_[value.id].id] = true;
    }
  }
}

bool is_elementwise_composite(const Node& node) {
  return op_class(node.op) == OpClass::composite && traits(node.op).kernel_class == KernelClass::elementwise &&
         node.op != Op::rope && node.op != Op::quantise && node.op != Op::causal_convolution;
}

bool is_repeated(const Node& node) { return node.op == Op::constant || node.op == Op::iota; }

Fusion fuse(const Graph& graph, const Storage& storage, std::span<const NodeId> members, Composites composites) {
  return BodyBuilder(graph, storage, members, composites).build();
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
