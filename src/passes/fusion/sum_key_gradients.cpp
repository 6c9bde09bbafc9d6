// Heads of the queries that share keys and values give each a gradient of these, and a reduce_sum adds them. Where the
// device's backward of attention can add them itself, in registers, they are neither written nor read.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "ops/attention_form.h"
#include "ops/shape_rules.h"
#include "passes/node_rewriter.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

// reduce_sum(reshape(gradient)), which is all that reads the gradient.
struct GroupSum {
  NodeId reshape, sum;
};

class KeyGradientSummer : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    return rewrite(Op::attention_backward, [this](NodeId id) {
      const Node& node = graph_.node(id);
      const std::optional<GroupSum> k = group_sum(node, 1), v = group_sum(node, 2);
      if (k && v && lie_in_order(node)) replace(id, *k, *v);
    });
  }

 private:
  // Kernels that add gradients read their operands by strides above 0.
  bool lie_in_order(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.begin() + 4, [&](Value value) {
      for (;;) {
        const Node& view = graph_.producer_node(value);
        if (view.op == Op::broadcast || view.op == Op::flip) return false;
        if (op_class(view.op) != OpClass::view) return true;
        value = view.inputs[0];
      }
    });
  }

  // Of the gradient of operand k or v, whose place among the operands is one further.
  std::optional<GroupSum> group_sum(const Node& node, std::size_t output) const {
    const std::optional<NodeId> reshape = readers_.only_reader(graph_, node.outputs[output], Op::reshape);
    if (!reshape) return std::nullopt;
    const std::optional<NodeId> sum = readers_.only_reader(graph_, graph_.node(*reshape).outputs[0], Op::reduce_sum);
    if (!sum) return std::nullopt;
    const TensorType& operand = graph_.type(node.inputs[output + 1]);
    const Shape& groups = graph_.type(graph_.node(*reshape).outputs[0]).shape;
    const int heads = groups.rank() - 3;
    const bool sums_heads = heads > 0 && groups.rank() == operand.shape.rank() + 1 &&
                            graph_.type(graph_.node(*sum).outputs[0]) == operand &&
                            reduced_axes(graph_.node(*sum).attributes, groups.rank()) == std::vector<int>{heads};
    return sums_heads ? std::optional(GroupSum{*reshape, *sum}) : std::nullopt;
  }

  void replace(NodeId id, const GroupSum& k, const GroupSum& v) {
    Node summing = graph_.node(id);
    summing.attributes.set(std::string(kSumsKeyGradients), true);
    if (!target_.has_kernel(graph_, summing)) return;
    rewriter_.insert_before(id);
    const std::vector<Value> made =
        graph_.node(make_node(graph_, Op::attention_backward, summing.inputs, summing.attributes)).outputs;
    const std::array before = {summing.outputs[0], graph_.node(k.sum).outputs[0], graph_.node(v.sum).outputs[0]};
    for (std::size_t i = 0; i < before.size(); ++i) rewriter_.replace_by_new(before[i], made[i]);
    for (const NodeId removed : {k.sum, v.sum, k.reshape, v.reshape, id}) rewriter_.remove(removed);
  }
};

}  // namespace

bool sum_key_gradients(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && KeyGradientSummer(graph, options.target).run();
}

}  // namespace ridgepoint
