// Lets cross-entropy read bf16 and fp16 logits as they are, and write their gradient rounded. Autocast casts the logits
// to fp32 first, and the gradient is cast back: the kernels compute the same in fp32, and two copies of the logits in
// fp32 are not made.
#include <algorithm>
#include <vector>

#include "passes/node_rewriter.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

class LogitsKeeper : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    for (const NodeId id : nodes_of(graph_)) {
      const Node& node = graph_.node(id);
      if (node.op == Op::cross_entropy) read_low(id, 0);
      if (node.op == Op::cross_entropy_backward) read_low(id, 1);
    }
    if (!rewriter_.finish()) return false;
    // So that later passes do not take the casts for readers of the logits.
    erase_unused(graph_, [](const Node& node) { return node.op == Op::cast; });
    return true;
  }

 private:
  // Whether casts to `low` are all that reads the value.
  bool is_cast_to(Value value, DType low) const {
    const std::vector<NodeId>& readers = readers_.of(value);
    return !readers.empty() && !readers_.is_result(value) && std::ranges::all_of(readers, [&](NodeId id) {
      const Node& reader = graph_.node(id);
      return reader.op == Op::cast && graph_.type(reader.outputs[0]).dtype == low;
    });
  }

  void read_low(NodeId id, std::size_t logits) {
    Node low = graph_.node(id);
    const std::optional<Value> source = low_source(graph_, low.inputs[logits]);
    if (!source) return;
    if (low.op == Op::cross_entropy_backward && !is_cast_to(low.outputs[0], graph_.type(*source).dtype)) return;
    low.inputs[logits] = *source;
    if (!target_.has_kernel(graph_, low)) return;
    rewriter_.insert_before(id);
    const NodeId made = make_node(graph_, low.op, low.inputs, low.attributes);
    if (low.op == Op::cross_entropy_backward) {
      for (const NodeId cast : readers_.of(low.outputs[0])) rewriter_.replace(cast, graph_.node(made).outputs[0]);
      rewriter_.remove(id);
    } else {
      rewriter_.replace(id, std::vector(graph_.node(made).outputs));
    }
  }
};

}  // namespace

bool keep_logits_low(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && LogitsKeeper(graph, options.target).run();
}

}  // namespace ridgepoint
