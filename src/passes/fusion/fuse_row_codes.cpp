// If a matrix is quantised to 8 bits with a scale for each row (quantise_rows), the kernel that makes the matrix writes
// the codes. The matrix itself is written only if something else reads it. The matrix is the result of one elementwise
// or fused node, or several results side by side; their codes then also lie side by side.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "ops/float8_product.h"
#include "ops/rule.h"
#include "passes/fusion/fused_body.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class RowCodeFuser {
 public:
  RowCodeFuser(Graph& graph, const PassTarget& target)
      : graph_(graph), target_(target), readers_(graph), rewriter_(graph) {}

  bool run() {
    for (const NodeId id : nodes_of(graph_)) {
      if (graph_.node(id).op == Op::quantise_rows) visit(id);
    }
    return rewriter_.finish();
  }

 private:
  // A matrix as the results of one node, the nodes that place them side by side, and the results that nothing else
  // reads.
  struct Matrix {
    std::vector<Value> parts;
    std::vector<NodeId> places;
    std::vector<Value> unread;
  };

  void add_parts(Value value, bool is_read_once, Matrix& matrix) const {
    const Node& node = graph_.producer_node(value);
    is_read_once = is_read_once && readers_.is_read_once(graph_, value);
    if (node.op != Op::concat) {
      matrix.parts.push_back(value);
      if (is_read_once) matrix.unread.push_back(value);
      return;
    }
    if (is_read_once) matrix.places.push_back(graph_.producer(value));
    for (const Value operand : node.inputs) add_parts(operand, is_read_once, matrix);
  }

  void visit(NodeId quantising) {
    const Node node = graph_.node(quantising);
    Matrix matrix;
    add_parts(node.inputs[0], true, matrix);
    const NodeId maker = graph_.producer(matrix.parts.front());
    if (rewriter_.is_removed(maker) || !is_made_by_rows(graph_, maker, matrix.parts)) return;
    const DType codes = graph_.type(node.outputs[0]).dtype;
    const Node before = graph_.node(maker);
    std::vector<std::size_t> kept;  // results
    const std::shared_ptr<const FusedBody> body = body_with_codes(before, matrix, codes, kept);
    if (body->graph.inputs().size() != before.inputs.size()) return;  // a constant is in the body instead
    rewriter_.insert_before(maker);
    const NodeId made = add_fused(graph_, before.inputs, body);
    if (op_class(before.op) == OpClass::composite) graph_.node(made).origin = before.op;
    if (!target_.has_kernel(graph_, graph_.node(made))) return rewriter_.erase_inserted();
    const std::vector<Value> results = graph_.node(made).outputs;
    for (std::size_t i = 0; i < kept.size(); ++i) rewriter_.replace_by_new(before.outputs[kept[i]], results[i]);
    rewriter_.remove(maker);
    for (const NodeId place : matrix.places) rewriter_.remove(place);
    rewriter_.insert_before(quantising);
    std::vector<Value> sides(results.begin() + static_cast<std::ptrdiff_t>(kept.size()), results.end() - 1);
    const Value whole = sides.size() == 1 ? sides.front() : concat(graph_, sides, -1);
    const Value replaced[] = {whole, results.back()};
    rewriter_.replace_by_new(quantising, replaced);
  }

  // The body of the node without the results that nothing else reads, and with the codes of the parts and the scales.
  std::shared_ptr<const FusedBody> body_with_codes(const Node& node, const Matrix& matrix, DType codes,
                                                   std::vector<std::size_t>& kept) {
    const std::vector<std::size_t> numbers = result_numbers(node, matrix.parts);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (std::ranges::find(matrix.unread, node.outputs[i]) == matrix.unread.end()) kept.push_back(i);
    }
    const Key key{node.body.get(), {numbers, kept, {static_cast<std::size_t>(codes)}}};
    if (const auto known = bodies_.find(key); known != bodies_.end()) return known->second;
    Graph body = body_to_extend(graph_, node, "_codes");
    std::vector<Value> parts, results;
    for (const std::size_t number : numbers) parts.push_back(body.outputs()[number].value);
    for (const std::size_t number : kept) results.push_back(body.outputs()[number].value);
    std::ranges::copy(codes_of_rows(body, parts, codes), std::back_inserter(results));
    body.clear_outputs();
    for (std::size_t i = 0; i < results.size(); ++i) body.add_output(std::to_string(i), results[i]);
    auto made = std::make_shared<const FusedBody>(std::move(body));
    if (node.body != nullptr) bodies_.emplace(key, made);
    return made;
  }

  // A body; the results that lie side by side, those that are kept, and the dtype of the codes.
  using Key = std::pair<const FusedBody*, std::vector<std::vector<std::size_t>>>;

  Graph& graph_;
  const PassTarget& target_;
  Readers readers_;
  Rewriter rewriter_;
  std::map<Key, std::shared_ptr<const FusedBody>> bodies_;
};

}  // namespace

bool fuse_row_codes(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && RowCodeFuser(graph, options.target).run();
}

}  // namespace ridgepoint
