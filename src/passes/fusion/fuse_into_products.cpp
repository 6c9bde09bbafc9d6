// Makes one fused node of a matmul and the fused node or composite that reads it, where the target has a kernel for
// both: the sums of the product are still in registers when the work of its end begins. SwiGLU of two products side by
// side, its derivative, and the cross-entropy of logits end a product so.
//
// The new node stands where the end stood, so nothing else may read the product before. Its body is the product and the
// end: the body of a fused node, or the composite itself. The product is a result too where other nodes read it. Its
// phase is that of the product, which takes most of its time: a product of forward may end in the loss.
#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/float8_product.h"
#include "passes/fusion/fused_body.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

class ProductFuser {
 public:
  ProductFuser(Graph& graph, const PassTarget& target)
      : graph_(graph), target_(target), storage_(graph), position_(positions(graph)) {}

  bool run() {
    Rewriter rewriter(graph_);
    for (const NodeId id : nodes_of(graph_)) {
      if (!may_end(graph_.node(id))) continue;
      const std::vector<Value> operands = graph_.node(id).inputs;
      for (const Value operand : operands) {
        if (try_to_fuse(storage_.root(operand), id, rewriter)) break;
      }
    }
    return rewriter.finish();
  }

 private:
  static bool may_end(const Node& node) {
    return node.op == Op::fused || (op_class(node.op) == OpClass::composite && launches(node.op));
  }

  static bool may_join(Phase product, Phase end) {
    return product == end || (product == Phase::forward && end == Phase::loss);
  }

  bool try_to_fuse(Value product, NodeId end, Rewriter& rewriter) {
    const NodeId begin = graph_.producer(product);
    const Node& node = graph_.node(begin);
    if (node.op != Op::matmul || rewriter.is_removed(begin) || !may_join(node.phase, graph_.node(end).phase))
      return false;
    if (float8_operands(node.attributes)) return false;  // becomes a product of codes, which no kernel ends so
    const auto is_read_early = [&](NodeId reader) { return position_[reader.id] < position_[end.id]; };
    if (std::ranges::any_of(storage_.readers(product), is_read_early)) return false;
    const std::array members = {begin, end};
    const Fusion fusion = fuse(graph_, storage_, members, Composites::kept);
    Node candidate;
    candidate.op = Op::fused;
    candidate.inputs = fusion.inputs;
    candidate.outputs = fusion.results;
    candidate.body = fusion.body;
    if (!target_.has_kernel(graph_, candidate)) return false;
    replace(fusion, members, rewriter);
    return true;
  }

  void replace(const Fusion& fusion, const std::array<NodeId, 2>& members, Rewriter& rewriter) {
    const NodeId place = members[1];
    rewriter.insert_before(place, graph_.scope_name(graph_.node(members[0])));
    Node& made = graph_.node(add_fused(graph_, fusion.inputs, fusion.body));
    made.origin = Op::matmul;
    made.phase = graph_.node(members[0]).phase;
    for (std::size_t i = 0; i < fusion.results.size(); ++i) {
      rewriter.replace(fusion.results[i], made.outputs[i]);
      move_views(graph_, storage_, fusion.results[i], made.outputs[i], is_before(place), rewriter);
    }
    for (const NodeId id : members) {
      rewriter.remove(id);
      for (const Value value : graph_.node(id).outputs) {
        if (std::ranges::find(fusion.results, value) != fusion.results.end()) continue;
        for (const NodeId view : storage_.views(value)) rewriter.remove(view);
      }
    }
  }

  std::function<bool(NodeId)> is_before(NodeId place) const {
    return [this, place](NodeId id) { return position_[id.id] < position_[place.id]; };
  }

  Graph& graph_;
  const PassTarget& target_;
  Storage storage_;
  std::vector<std::size_t> position_;  // by node
};

}  // namespace

bool fuse_into_products(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && ProductFuser(graph, options.target).run();
}

}  // namespace ridgepoint
