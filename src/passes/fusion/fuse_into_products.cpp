// Fuses a matmul with the fused node or composite that reads it, its epilogue, if the target has a kernel for both: the
// sums of the product are still in registers when the epilogue begins. Epilogues are SwiGLU of two products side by
// side, the derivative of SwiGLU, and the cross-entropy of logits.
//
// The new node stands where the epilogue stood, so nothing else may read the product before. Its body is the product
// and the epilogue: the body of a fused node, or the composite itself. If other nodes read the product, it is a result
// too. The new node has the phase of the product, which takes most of the time, even if its epilogue is the loss.
#include <array>
#include <vector>

#include "ops/float8_product.h"
#include "passes/fusion/fused_body.h"

namespace ridgepoint {
namespace {

class ProductFuser : NodeFuser {
 public:
  using NodeFuser::NodeFuser;

  bool run() {
    for (const NodeId id : nodes_of(graph_)) {
      if (!may_end(graph_.node(id))) continue;
      const std::vector<Value> operands = graph_.node(id).inputs;
      for (const Value operand : operands) {
        if (try_to_fuse(storage_.root(operand), id)) break;
      }
    }
    return rewriter_.finish();
  }

 private:
  static bool may_end(const Node& node) {
    return node.op == Op::fused || (op_class(node.op) == OpClass::composite && launches(node.op));
  }

  static bool may_join(Phase product, Phase epilogue) {
    return product == epilogue || (product == Phase::forward && epilogue == Phase::loss);
  }

  bool try_to_fuse(Value product, NodeId epilogue) {
    const NodeId begin = graph_.producer(product);
    const Node& node = graph_.node(begin);
    if (node.op != Op::matmul || rewriter_.is_removed(begin) || !may_join(node.phase, graph_.node(epilogue).phase))
      return false;
    if (float8_operands(node.attributes)) return false;  // becomes a product of codes, which has no epilogues
    if (is_read_before(product, epilogue)) return false;
    const std::array members = {begin, epilogue};
    const Fusion fusion = fuse(members, Composites::kept);
    if (!has_kernel(fusion)) return false;
    Node& made = insert(fusion, epilogue, begin);
    made.origin = Op::matmul;
    made.phase = node.phase;
    remove(members, fusion);
    return true;
  }
};

}  // namespace

bool fuse_into_products(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && ProductFuser(graph, options.target).run();
}

}  // namespace ridgepoint
