// Adds the gradient of an embedding to the other gradient of its table in place, where a table has two: that of a tied
// head, or of the micro-batches before. Only the rows of tokens are read and written, instead of three tables.
#include <vector>

#include "passes/node_rewriter.h"
#include "ridgepoint/ops.h"

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

}  // namespace

bool add_embedding_gradients(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && GradientAdder(graph, options.target).run();
}

}  // namespace ridgepoint
