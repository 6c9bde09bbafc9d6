// Computes an elementwise value of the forward pass again in backward, instead of saving it, if backward keeps the
// value's operands anyway and one kernel can compute the value together with its readers. Then forward does not write
// the value, backward does not read it, and it takes no memory in between. For SwiGLU, both operands are saved and silu
// is computed again. The exponentials of a softmax are computed again from the softmax and the row sums, which backward
// reads too. The operand of a norm that is widened, such as a residual stream in bf16, is saved in its low dtype, which
// takes half the memory. The pass also applies to values that activation checkpointing computes again.
#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "ir/rewriter.h"
#include "passes/fusion/fused_body.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class CheapValueRecomputer {
 public:
  explicit CheapValueRecomputer(Graph& graph) : graph_(graph), storage_(graph), rewriter_(graph) {}

  bool run() {
    bool changed = false;
    for (const NodeId id : nodes_of(graph_)) changed = visit(id) || changed;
    rewriter_.finish();
    return changed;
  }

 private:
  // Whether the node would read a value of the phase `made` from memory. All values that are computed again for one
  // product are in one kernel.
  bool reads_from_memory(Phase made, NodeId id) const {
    const Phase phase = graph_.node(id).phase;
    return phase == Phase::backward || (phase == Phase::recompute && made != Phase::recompute);
  }

  // An op of one result that costs a few operations an element, in whichever kernel.
  static bool is_cheap(const Node& node) {
    return node.outputs.size() == 1 && is_elementwise(node) && !is_repeated(node);
  }

  // Whether the value is a cast from a smaller dtype, so that saving the operand takes less memory. Weights are kept
  // anyway, and each weight has one cast for all micro-batches.
  bool is_widened(Value value) const {
    const std::optional<Value> low = low_source(graph_, value);
    if (!low) return false;
    const Value root = storage_.root(*low);
    return op_class(graph_.producer_node(root).op) != OpClass::state &&
           graph_.type(root).bytes() < graph_.type(value).bytes();
  }

  bool visit(NodeId id) {
    const Node node = graph_.node(id);
    const Value value = node.outputs[0];
    if (!may_be_recomputed(node)) return false;
    const std::vector<NodeId> readers = later_readers(node);
    if (readers.empty()) return false;
    const std::optional<Recipe> recipe = recipe_of(node);
    if (!recipe) return false;
    rewriter_.insert_before(readers.front());
    Node& again = graph_.node(make_node(graph_, recipe->op, recipe->operands, recipe->attributes));
    again.scope = node.scope;
    again.origin = node.origin;
    graph_.set_type(again.outputs[0], graph_.type(value));  // with its labels
    for (const NodeId reader : readers) std::ranges::replace(graph_.node(reader).inputs, value, again.outputs[0]);
    return true;
  }

  // A node of the forward pass, or the copy that activation checkpointing made of one.
  static bool is_of_forward(const Node& node) {
    return node.phase == Phase::forward || node.phase == Phase::loss || node.phase == Phase::recompute;
  }

  std::vector<NodeId> later_readers(const Node& node) const {
    std::vector<NodeId> readers;
    std::ranges::copy_if(storage_.readers(node.outputs[0]), std::back_inserter(readers),
                         [&](NodeId r) { return reads_from_memory(node.phase, r); });
    return readers;
  }

  // Whether only a chain of cheap kernels reads the result in backward.
  bool may_be_recomputed(const Node& node) const {
    if (!is_of_forward(node) || !is_cheap(node)) return false;
    const Value value = node.outputs[0];
    if (storage_.is_result(value) || !storage_.views(value).empty()) return false;
    const bool is_wide = is_widened(value);
    return std::ranges::all_of(later_readers(node), [&](NodeId r) {
      return is_cheap(graph_.node(r)) || (is_wide && is_norm(graph_.node(r)));
    });
  }

  // How to compute a value from saved values.
  struct Recipe {
    Op op;
    std::vector<Value> operands;
    Attributes attributes = {};
  };

  std::optional<Recipe> recipe_of(const Node& node) const {
    if (is_widened(node.outputs[0]) ||
        std::ranges::all_of(node.inputs, [&](Value operand) { return is_kept(operand, node.phase); }))
      return Recipe{node.op, node.inputs, node.attributes};
    return node.op == Op::exp ? from_quotient(node.outputs[0]) : std::nullopt;
  }

  // x = (x / sum) sum, where the quotient and the sum over rows are kept, and the quotient is not computed again from x
  // itself. In a low dtype that would round once more.
  std::optional<Recipe> from_quotient(Value exponentials) const {
    if (is_low(graph_.type(exponentials).dtype)) return std::nullopt;
    for (const NodeId id : storage_.readers(exponentials)) {
      const Node& quotient = graph_.node(id);
      if (quotient.op != Op::div || quotient.inputs[0] != exponentials || !is_of_forward(quotient)) continue;
      if (!is_kept(quotient.outputs[0], quotient.phase) || may_be_recomputed(quotient)) continue;
      const Value sum = quotient.inputs[1];
      const Node& reduction = graph_.producer_node(storage_.root(sum));
      if (reduction.op == Op::reduce_sum && reduction.inputs[0] == exponentials && is_kept(sum, quotient.phase))
        return Recipe{Op::mul, {quotient.outputs[0], sum}};
    }
    return std::nullopt;
  }

  // Whether backward reads the storage of the operand after that phase, or the operand has none.
  bool is_kept(Value operand, Phase phase) const {
    const Value root = storage_.root(operand);
    return is_repeated(graph_.producer_node(root)) ||
           std::ranges::any_of(storage_.readers(root), [&](NodeId id) { return reads_from_memory(phase, id); });
  }

  Graph& graph_;
  Storage storage_;  // before any value was computed again
  Rewriter rewriter_;
};

}  // namespace

bool recompute_cheap_values(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && CheapValueRecomputer(graph).run();
}

}  // namespace ridgepoint
