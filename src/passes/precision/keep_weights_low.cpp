// Stores bf16 and fp16 weights, so that no run casts them. A parameter that the run updates keeps its fp32 values, and
// gets a low copy beside them: the state "low.NAME", which the optimizer writes with the parameter and
// Program::write_input with its first value. A parameter that the run only reads, always in the same low type, is
// stored in that type alone.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ir/stored_tensors.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/node_rewriter.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

class WeightKeeper : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    for (const NodeId id : graph_.inputs(Role::parameter)) visit(graph_.node(id));
    return rewriter_.finish();
  }

 private:
  void visit(Node& parameter) {
    const Value value = parameter.outputs[0];
    if (graph_.type(value).dtype != DType::fp32) return;
    const std::vector<NodeId> casts = casts_of(value);
    if (casts.empty()) return;
    const auto update = std::ranges::find(graph_.updates(), value, &Update::input);
    if (update == graph_.updates().end()) {
      if (casts.size() == readers_.of(value).size() && !readers_.is_result(value)) store_low(parameter, casts);
    } else if (const Node& optimizer = graph_.producer_node(update->value); optimizer_layout(optimizer)) {
      add_copy(parameter, casts, graph_.producer(update->value));
    }
  }

  // The casts to the low type of the first of them.
  std::vector<NodeId> casts_of(Value value) const {
    std::vector<NodeId> casts;
    for (const NodeId reader : readers_.of(value)) {
      const Node& node = graph_.node(reader);
      if (node.op != Op::cast || !is_low(graph_.type(node.outputs[0]).dtype)) continue;
      if (casts.empty() || low_type(casts.front()) == low_type(reader)) casts.push_back(reader);
    }
    return casts;
  }
  TensorType low_type(NodeId cast) const { return graph_.type(graph_.node(cast).outputs[0]); }

  void store_low(Node& parameter, const std::vector<NodeId>& casts) {
    const Value value = parameter.outputs[0];
    parameter.attributes.set(kDeclaredDType, std::string(name(graph_.type(value).dtype)));
    graph_.set_type(value, low_type(casts.front()));
    replace(casts, value);
  }

  void add_copy(const Node& parameter, const std::vector<NodeId>& casts, NodeId optimizer) {
    const TensorType type = low_type(casts.front());
    rewriter_.insert_before(graph_.producer(parameter.outputs[0]));
    const Value copy = input(graph_, "low." + input_name(parameter), type, Role::state);
    Node& made = graph_.node(graph_.producer(copy));
    made.attributes.set(kCopyOf, input_name(parameter));
    replace(casts, copy);

    const Node before = graph_.node(optimizer);
    Attributes attributes = before.attributes;
    attributes.set("copy", std::string(name(type.dtype)));
    rewriter_.insert_before(optimizer);
    const Node& after = graph_.node(make_node(graph_, before.op, before.inputs, attributes));
    rewriter_.replace(optimizer, std::span(after.outputs).first(before.outputs.size()));
    graph_.add_update(copy, after.outputs.back());
  }

  void replace(const std::vector<NodeId>& casts, Value low) {
    for (const NodeId cast : casts) rewriter_.replace(cast, low);
  }
};

}  // namespace

bool keep_weights_low(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && WeightKeeper(graph, options.target).run();
}

}  // namespace ridgepoint
