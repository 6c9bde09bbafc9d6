// If kernels of their own would cast the result of a bf16 or fp16 product to fp32, lets the product write its fp32 sums
// instead. The result is then not rounded, so it is nearer to the exact result.
#include <algorithm>
#include <vector>

#include "passes/node_rewriter.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class ProductWidener : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    return rewrite(Op::matmul, [this](NodeId id) {
      const Value product = graph_.node(id).outputs[0];
      const DType low = graph_.type(product).dtype;
      if (is_low(low) && is_only_cast(product, accumulator(low))) widen(id);
    });
  }

 private:
  // Whether only casts to `wide` read the value, directly or through views.
  bool is_only_cast(Value value, DType wide) const {
    const std::span<const NodeId> readers = readers_.of(value);
    if (readers_.is_result(value) || readers.empty()) return false;
    return std::ranges::all_of(readers, [&](NodeId id) {
      const Node& reader = graph_.node(id);
      if (reader.op == Op::cast) return graph_.type(reader.outputs[0]).dtype == wide;
      return op_class(reader.op) == OpClass::view && std::ranges::all_of(reader.outputs, [&](Value part) {
               return readers_.of(part).empty() ? !readers_.is_result(part) : is_only_cast(part, wide);
             });
    });
  }

  void widen(NodeId id) {
    Node wide = graph_.node(id);
    const DType dtype = accumulator(graph_.type(wide.outputs[0]).dtype);
    wide.attributes.set("result", std::string(name(dtype)));
    if (!target_.has_kernel(graph_, wide)) return;
    rewriter_.insert_before(id);
    const Value made = graph_.node(make_node(graph_, Op::matmul, wide.inputs, wide.attributes)).outputs[0];
    graph_.set_type(made, {dtype, graph_.type(wide.outputs[0]).shape});  // with its labels
    replace_readers(wide.outputs[0], made);
    rewriter_.remove(id);
  }

  void replace_readers(Value low, Value wide) {
    for (const NodeId id : readers_.of(low)) {
      const Node& reader = graph_.node(id);
      if (reader.op == Op::cast) {
        rewriter_.replace(id, wide);
        continue;
      }
      const std::vector<Value> parts = reader.outputs;
      rewriter_.insert_before(id);
      const std::vector<Value> made = graph_.producer_node(rewriter_.rebuild_view(parts[0], wide)).outputs;
      for (std::size_t i = 0; i < parts.size(); ++i) replace_readers(parts[i], made[i]);
      rewriter_.remove(id);
    }
  }
};

}  // namespace

bool widen_products(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && ProductWidener(graph, options.target).run();
}

}  // namespace ridgepoint
