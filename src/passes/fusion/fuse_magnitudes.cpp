// If a matrix is quantised to 8 bits, the kernel that makes the matrix also finds its largest magnitudes. quantise then
// reads the matrix once, for the codes, and need not read it for the scale. The kernel writes one magnitude for each
// row, or, if it has no reduction, one for each kSegment elements, so that few threads share a maximum.
//
// The matrix is the result of one elementwise, row-wise or fused node, a view of that result, or several results of the
// same shape side by side. The target decides whether one kernel computes the node and its magnitudes.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ops/rule.h"
#include "ops/shape_rules.h"
#include "passes/fusion/fused_body.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kSegment = 128;

// The largest magnitudes of values of one shape, for each row or segment.
Value magnitudes_of(Graph& body, std::span<const Value> parts, bool in_segments) {
  Value magnitudes;
  for (const Value part : parts) {
    const Value x = cast_to(body, part, DType::fp32);
    const Value magnitude = maximum(body, x, neg(body, x));
    magnitudes = magnitudes.valid() ? maximum(body, magnitudes, magnitude) : magnitude;
  }
  const Shape& shape = body.type(magnitudes).shape;
  if (in_segments && shape[-1] % kSegment == 0 && shape.rank() < kMaxRank) {
    std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
    dims.back().size /= kSegment;
    dims.emplace_back(kSegment);
    magnitudes = reshape(body, magnitudes, Shape(dims));
  }
  const Value largest = reduce_max(body, magnitudes, {-1});
  const DType dtype = body.type(parts.front()).dtype;
  if (!is_low(dtype)) return largest;
  // Kernels round only what they store. The largest rounded number is the largest number, rounded.
  return cast(body, cast(body, largest, dtype), DType::fp32);
}

class MagnitudeFuser {
 public:
  MagnitudeFuser(Graph& graph, const PassTarget& target) : graph_(graph), target_(target), rewriter_(graph) {}

  bool run() {
    std::map<NodeId, std::vector<Matrix>> matrices;  // by the node that makes them
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (node.op != Op::quantise || node.inputs.size() > 1) continue;
      const std::vector<Value> parts = parts_of(node.inputs[0]);
      const NodeId maker = graph_.producer(parts.front());
      if (is_made_by_rows(graph_, maker, parts))
        matrices[maker].push_back({id, result_numbers(graph_.node(maker), parts)});
    }
    for (const auto& [maker, read] : matrices) fuse(maker, read);
    return rewriter_.finish();
  }

 private:
  // Which results of a node lie side by side in a matrix.
  using Parts = std::vector<std::size_t>;
  struct Matrix {
    NodeId quantise;
    Parts parts;
  };

  std::vector<Value> parts_of(Value matrix) const {
    const Node& node = graph_.producer_node(matrix);
    if (node.op == Op::reshape || node.op == Op::transpose) return parts_of(node.inputs[0]);
    if (node.op != Op::concat) return {matrix};
    std::vector<Value> parts;
    for (const Value operand : node.inputs) std::ranges::copy(parts_of(operand), std::back_inserter(parts));
    return parts;
  }

  void fuse(NodeId maker, std::span<const Matrix> read) {
    const Node node = graph_.node(maker);
    std::vector<Parts> found;             // those whose magnitudes are results, behind those of the node
    std::vector<std::size_t> magnitudes;  // the result that each quantise node reads
    for (const Matrix& matrix : read) {
      const auto known = std::ranges::find(found, matrix.parts);
      magnitudes.push_back(node.outputs.size() + static_cast<std::size_t>(known - found.begin()));
      if (known == found.end()) found.push_back(matrix.parts);
    }
    const std::shared_ptr<const FusedBody> body = body_with_magnitudes(node, found);
    if (body->graph.inputs().size() != node.inputs.size()) return;  // a constant is in the body instead
    rewriter_.insert_before(maker);
    const NodeId made = add_fused(graph_, node.inputs, body);
    if (op_class(node.op) == OpClass::composite) graph_.node(made).origin = node.op;
    const std::vector<Value> results = graph_.node(made).outputs;
    std::vector<Node> quantising;
    for (std::size_t i = 0; i < read.size(); ++i) {
      quantising.push_back(graph_.node(read[i].quantise));
      quantising.back().inputs.push_back(results[magnitudes[i]]);
    }
    const auto loses_kernel = [&](const Node& with) {
      return !target_.has_kernel(graph_, with) && target_.has_kernel(graph_, graph_.producer_node(with.outputs[0]));
    };
    if (!target_.has_kernel(graph_, graph_.node(made)) || std::ranges::any_of(quantising, loses_kernel))
      return rewriter_.erase_inserted();
    rewriter_.replace_by_new(maker, results);
    for (std::size_t i = 0; i < read.size(); ++i) {
      rewriter_.insert_before(read[i].quantise);
      const Node& codes = copy_node(graph_, graph_, quantising[i], quantising[i].inputs);
      rewriter_.replace_by_new(read[i].quantise, codes.outputs);
    }
  }

  // The body of the node, with the magnitudes of each of `found` as a result. Equal nodes share one.
  std::shared_ptr<const FusedBody> body_with_magnitudes(const Node& node, const std::vector<Parts>& found) {
    const std::pair key(node.body.get(), found);
    if (const auto known = bodies_.find(key); known != bodies_.end()) return known->second;
    Graph body = body_to_extend(graph_, node, "_magnitudes");
    const bool in_segments = !has_op_of(body, OpClass::reduction);
    for (const Parts& numbers : found) {
      std::vector<Value> parts;
      for (const std::size_t number : numbers) parts.push_back(body.outputs()[number].value);
      const Value magnitudes = magnitudes_of(body, parts, in_segments);
      body.add_output(std::to_string(body.outputs().size()), magnitudes);
    }
    auto made = std::make_shared<const FusedBody>(std::move(body));
    if (node.body != nullptr) bodies_.emplace(key, made);
    return made;
  }

  Graph& graph_;
  const PassTarget& target_;
  Rewriter rewriter_;
  std::map<std::pair<const FusedBody*, std::vector<Parts>>, std::shared_ptr<const FusedBody>> bodies_;
};

}  // namespace

bool fuse_magnitudes(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && MagnitudeFuser(graph, options.target).run();
}

}  // namespace ridgepoint
