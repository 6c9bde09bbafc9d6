// Passes that let the kernel of a gradient add to another gradient.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/attention_form.h"
#include "ops/rule.h"
#include "ops/shape_rules.h"
#include "passes/node_rewriter.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class GradientAdder : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    return rewrite(Op::add, [this](NodeId id) { visit(id); });
  }

 private:
  void visit(NodeId id) {
    const std::vector<Value> terms = graph_.node(id).inputs;
    for (const std::size_t i : {0, 1}) {
      const NodeId embedding = graph_.producer(terms[i]);
      if (graph_.node(embedding).op != Op::embedding_backward || !readers_.only_reader(terms[i])) continue;
      if (may_be_overwritten(terms[1 - i], id)) return replace(id, embedding, terms[1 - i]);
    }
  }

  bool may_be_overwritten(Value addend, NodeId sum) const {
    const OpClass kind = op_class(graph_.producer_node(addend).op);
    const bool is_stored = kind != OpClass::state && kind != OpClass::view && kind != OpClass::placement;
    return is_stored && readers_.only_reader(addend) && graph_.type(addend) == graph_.type(graph_.node(sum).outputs[0]);
  }

  void replace(NodeId sum, NodeId embedding, Value addend) {
    rewriter_.insert_before(sum, graph_.scope_name(graph_.node(embedding)));
    const std::vector<Value> inputs = graph_.node(embedding).inputs;
    const Value made = embedding_backward_add(graph_, inputs[0], inputs[1], addend);
    rewriter_.replace_by_new(sum, {&made, 1});
    rewriter_.remove(embedding);
  }
};

class ProductAdder : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    return rewrite(Op::add, [this](NodeId id) {
      if (graph_.node(id).attributes.get_or(kAccumulates, false)) visit(id);
    });
  }

 private:
  void visit(NodeId id) {
    const std::vector<Value> terms = graph_.node(id).inputs;
    const std::optional<NodeId> product = only_product(terms[1]);
    if (!product || graph_.type(terms[0]) != graph_.type(terms[1])) return;
    Node added = graph_.node(*product);
    added.op = Op::matmul_add;
    added.inputs.push_back(terms[0]);
    added.outputs = graph_.node(id).outputs;
    added.attributes.erase("result");
    if (!target_.has_kernel(graph_, added)) return;
    widen_first(terms[0]);
    replace(id, added, id, graph_.scope_name(graph_.node(*product)));
    if (graph_.producer(terms[1]) != *product) rewriter_.remove(graph_.producer(terms[1]));
    rewriter_.remove(*product);
  }

  // The product that makes a gradient, perhaps before a cast, if nothing else reads the product.
  std::optional<NodeId> only_product(Value gradient) const {
    if (!readers_.only_reader(gradient)) return std::nullopt;
    const std::optional<Value> low = low_source(graph_, gradient);
    if (low && !readers_.only_reader(*low)) return std::nullopt;
    const NodeId product = graph_.producer(low.value_or(gradient));
    return graph_.node(product).op == Op::matmul ? std::optional(product) : std::nullopt;
  }

  // The sums of the first micro-batch are not rounded either.
  void widen_first(Value gradient) {
    const std::optional<Value> low = low_source(graph_, gradient);
    if (!low || !readers_.only_reader(*low) || graph_.producer_node(*low).op != Op::matmul) return;
    const NodeId product = graph_.producer(*low);
    Node wide = graph_.node(product);
    wide.attributes.set("result", std::string(name(graph_.type(gradient).dtype)));
    replace(graph_.producer(gradient), wide, product, graph_.scope_name(wide));
    rewriter_.remove(product);
  }

  void replace(NodeId before, const Node& node, NodeId place, std::string_view scope) {
    rewriter_.insert_before(place, scope);
    const Value made = make_value(graph_, node.op, node.inputs, node.attributes);
    rewriter_.replace_by_new(before, {&made, 1});
  }
};

// reduce_sum(reshape(gradient)), the only reader of the gradient.
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

  // The sum over heads that share k or v, if result `output` is such a gradient: it belongs to operand `output` + 1.
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

// A table of embeddings may have a second gradient: of a tied head, or of earlier micro-batches. The pass adds the
// gradient of the embedding to the second one in place. Only the rows of tokens are read and written, instead of three
// tables.
bool add_embedding_gradients(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && GradientAdder(graph, options.target).run();
}

// Lets the product that makes the gradient of a weight add to the gradient of earlier micro-batches in place. No kernel
// then reads and writes both gradients, and the product is added before it is rounded, if gradients add up in fp32.
bool add_product_gradients(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && ProductAdder(graph, options.target).run();
}

// If query heads share keys and values (grouped-query attention), each head makes a gradient of the shared keys and
// values, and a reduce_sum adds them. If the device's attention backward can add them in registers, they are not
// written to memory.
bool sum_key_gradients(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && KeyGradientSummer(graph, options.target).run();
}

}  // namespace ridgepoint
