// Makes one fused node of the product that makes queries, keys and values and of the rotary embedding of the first two,
// where the target has a kernel for both: the rotated heads take the place of the product's columns, so they are
// written once. fuse_into_products would keep the product beside them, because values are read from it.
//
// The new node stands where the rotation stood, so nothing else may read the product before.
#include <memory>
#include <optional>
#include <vector>

#include "ops/float8_product.h"
#include "passes/fusion/fused_body.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

// product -> (split) -> reshape -> rope: the first part of the columns, or all of them.
struct RotatedProduct {
  NodeId matmul, reshape, rope;
  std::optional<NodeId> split = {};
};

class RotationFuser : NodeFuser {
 public:
  RotationFuser(Graph& graph, const PassTarget& target) : NodeFuser(graph, target), readers_(graph) {}

  bool run() {
    for (const NodeId id : nodes_of(graph_)) {
      if (graph_.node(id).op != Op::rope) continue;
      if (const std::optional<RotatedProduct> found = find(id)) try_to_fuse(*found);
    }
    return rewriter_.finish();
  }

 private:
  bool is_read_once(Value value) const { return readers_.is_read_once(graph_, value); }

  std::optional<RotatedProduct> find(NodeId rope) const {
    const Value heads = graph_.node(rope).inputs[0];
    const Node& reshape = graph_.producer_node(heads);
    if (reshape.op != Op::reshape || !is_read_once(heads) || !is_read_once(reshape.inputs[0])) return std::nullopt;
    RotatedProduct found{.matmul = graph_.producer(reshape.inputs[0]), .reshape = graph_.producer(heads), .rope = rope};
    if (graph_.node(found.matmul).op == Op::split) {
      const Node& split = graph_.node(found.matmul);
      const bool is_first = split.outputs[0] == reshape.inputs[0] && graph_.type(split.inputs[0]).shape.rank() == 2 &&
                            normalise_axis(split.attributes.get<std::int64_t>("axis"), 2) == 1;
      if (!is_first || !is_read_once(split.inputs[0])) return std::nullopt;
      found.split = found.matmul;
      found.matmul = graph_.producer(split.inputs[0]);
    }
    const Node& matmul = graph_.node(found.matmul);
    const bool may_end = matmul.op == Op::matmul && matmul.phase == graph_.node(rope).phase &&
                         !float8_operands(matmul.attributes);  // becomes a product of codes, which has no epilogues
    return may_end && !is_read_before(matmul.outputs[0], rope) ? std::optional(found) : std::nullopt;
  }

  // The body of inputs x, w, cosines and sines; its result has the product's type.
  std::shared_ptr<const FusedBody> body_of(const RotatedProduct& found, const std::vector<Value>& operands) const {
    Graph body;
    body.name = "fused_matmul_rope";
    std::vector<Value> inputs;
    for (const Value value : operands) {
      inputs.push_back(input(body, std::to_string(inputs.size()), graph_.type(value), Role::data));
    }
    const auto add = [&](NodeId id, const std::vector<Value>& of) {
      Node& made = copy_node(body, graph_, graph_.node(id), of);
      made.origin = {};
      return made.outputs;
    };
    const std::vector<Value> product = add(found.matmul, {inputs[0], inputs[1]});
    std::vector<Value> parts = found.split ? add(*found.split, product) : product;
    const Value rotated = add(found.rope, {add(found.reshape, {parts[0]})[0], inputs[2], inputs[3]})[0];
    parts[0] = reshape(body, rotated, body.type(parts[0]).shape);
    body.add_output("0", found.split ? concat(body, parts, 1) : parts[0]);
    for (const NodeId id : body.order()) body.node(id).source = 0;
    return std::make_shared<const FusedBody>(std::move(body));
  }

  void try_to_fuse(const RotatedProduct& found) {
    const Node matmul = graph_.node(found.matmul);
    const Node rope = graph_.node(found.rope);
    Fusion fusion{{matmul.inputs[0], matmul.inputs[1], rope.inputs[1], rope.inputs[2]}, matmul.outputs, nullptr};
    fusion.body = body_of(found, fusion.inputs);
    if (!has_kernel(fusion)) return;
    Node& made = insert(fusion, found.rope, found.matmul);
    made.origin = Op::matmul;
    graph_.set_type(made.outputs[0], graph_.type(matmul.outputs[0]));  // with its labels
    rewriter_.replace(rope.outputs[0], rope.inputs[0]);
    rewriter_.remove(found.rope);
    rewriter_.remove(found.matmul);
  }

  Readers readers_;
};

}  // namespace

bool rotate_in_products(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && RotationFuser(graph, options.target).run();
}

}  // namespace ridgepoint
