// Computes the loss and the gradient of the logits for some rows (tokens) at a time, so that the logits of all rows
// never exist together. Each chunk of rows has the product of the head, the cross-entropy, its derivative, and the two
// products with the derivative. The gradients of the head's weight are added over the chunks, in the accumulator of
// their dtype. Nothing is computed twice, because the derivative of a row of the loss does not depend on the other
// rows. After the fused linear cross-entropy of Hsu et al., Liger Kernel, 2024 (arXiv:2410.10989).
// If the options give no number of rows, the pass runs only if the logits are large in bytes and as a share of the
// memory. docs/decisions/0026 has the measurements behind both limits.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/warning.h"
#include "ir/permutation.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/pass.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// The part of an operand that a chunk of rows reads: all of it; the chunk's rows, along the first or the second axis;
// or the chunk's part of a value of the region.
enum class ChunkRead : std::uint8_t { whole, rows, columns, chunk };

struct LossNode {
  NodeId id;
  std::vector<ChunkRead> reads;  // by operand
  bool sums_over_rows = false;   // a product whose inner dimension is the rows: the gradient of the head's weight
};

// The nodes from the product that makes the logits to the gradients of that product's operands. Each row of logits is
// computed apart from the others, so the whole region can run for some rows at a time.
struct LossRegion {
  std::int64_t rows = 0;
  Value logits;                 // [rows,V], the result of the product
  NodeId loss;                  // the node cross_entropy
  std::vector<LossNode> nodes;  // in order
  // Nodes that stand after `loss`, that the region needs, and that depend on no value of the region. In order.
  std::vector<NodeId> needed;
};

// Of a graph that does not change.
struct GraphFacts {
  explicit GraphFacts(const Graph& graph) : readers(graph), position(positions(graph)) {}
  Readers readers;
  std::vector<std::size_t> position;  // in the order, by node
};

// The region of a cross_entropy node in a differentiated graph. nullopt if the node has no derivative, if its logits
// are not the result of a product and elementwise ops, or if something outside reads a value of the logits' shape.
class RegionFinder {
 public:
  RegionFinder(const Graph& graph, const GraphFacts& facts, NodeId loss)
      : graph_(graph), readers_(facts.readers), position_(facts.position) {
    region_.loss = loss;
  }

  std::optional<LossRegion> run() {
    const std::optional<NodeId> product = product_behind(graph_.node(region_.loss).inputs[0]);
    if (!product) return std::nullopt;
    region_.logits = graph_.node(*product).outputs[0];
    region_.rows = graph_.type(region_.logits).shape[0];
    last_ = position_[product->id];
    for (std::size_t at = last_; at <= last_; ++at) {
      const NodeId id = graph_.order()[at];
      const Node& node = graph_.node(id);
      if (id != *product && std::ranges::none_of(node.inputs, [&](Value v) { return is_wide(v); })) {
        note_dependence(node);
      } else if (!add(id, node)) {
        return std::nullopt;
      }
    }
    if (!has_derivative_) return std::nullopt;
    find_needed();
    return std::move(region_);
  }

 private:
  // The product that makes the value, perhaps followed by elementwise ops.
  std::optional<NodeId> product_behind(Value value) const {
    const Shape& shape = graph_.type(value).shape;
    for (;;) {
      const Node& node = graph_.producer_node(value);
      if (node.op == Op::matmul) return graph_.producer(value);
      if (op_class(node.op) != OpClass::elementwise) return std::nullopt;
      const auto has_shape = [&](Value operand) { return graph_.type(operand).shape == shape; };
      if (std::ranges::count_if(node.inputs, has_shape) != 1) return std::nullopt;
      value = *std::ranges::find_if(node.inputs, has_shape);
    }
  }

  // Whether the value has the shape of the logits or its transpose.
  bool is_wide(Value value) const { return row_axis_.contains(value); }
  bool is_inside(Value value) const { return is_wide(value) || rows_.contains(value); }

  // Values outside the region that depend on it.
  void note_dependence(const Node& node) {
    const auto depends = [&](Value v) { return dependent_.contains(v) || rows_.contains(v); };
    if (std::ranges::any_of(node.inputs, depends)) dependent_.insert(node.outputs.begin(), node.outputs.end());
  }

  bool add(NodeId id, const Node& node) {
    LossNode added{id, {}};
    const bool is_known = node.op == Op::matmul      ? add_product(node, added)
                          : node.op == Op::transpose ? add_transpose(node, added)
                          : node.op == Op::cross_entropy || node.op == Op::cross_entropy_backward
                              ? add_loss(id, node, added)
                              : add_elementwise(node, added);
    if (!is_known) return false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (added.reads[i] != ChunkRead::chunk && dependent_.contains(node.inputs[i])) return false;
    }
    region_.nodes.push_back(std::move(added));
    for (const Value value : node.outputs) {
      if (!is_wide(value)) continue;
      for (const NodeId reader : readers_.of(value)) last_ = std::max(last_, position_[reader.id]);
    }
    return std::ranges::none_of(node.outputs, [&](Value v) { return is_wide(v) && readers_.is_result(v); });
  }

  bool add_product(const Node& node, LossNode& added) {
    const Value a = node.inputs[0];
    const Value b = node.inputs[1];
    if (graph_.type(a).shape.rank() != 2 || (is_inside(a) && is_inside(b))) return false;
    if (node.outputs[0] == region_.logits) {
      added.reads = {ChunkRead::rows, ChunkRead::whole};
      row_axis_[node.outputs[0]] = 0;
      return true;
    }
    const Value wide = is_wide(a) ? a : b;
    added.sums_over_rows = is_wide(a) == (row_axis_.at(wide) == 1);
    if (added.sums_over_rows) {
      added.reads = is_wide(a) ? std::vector{ChunkRead::chunk, ChunkRead::rows}
                               : std::vector{ChunkRead::columns, ChunkRead::chunk};
      dependent_.insert(node.outputs[0]);
      return true;
    }
    added.reads = {ChunkRead::chunk, ChunkRead::whole};
    rows_.insert(node.outputs[0]);
    return is_wide(a);  // else the rows are the columns of the result
  }

  bool add_transpose(const Node& node, LossNode& added) {
    if (permutation_of(node) != Permutation{1, 0}) return false;
    added.reads = {ChunkRead::chunk};
    row_axis_[node.outputs[0]] = 1 - row_axis_.at(node.inputs[0]);
    return true;
  }

  bool add_loss(NodeId id, const Node& node, LossNode& added) {
    for (const Value value : node.inputs) added.reads.push_back(is_inside(value) ? ChunkRead::chunk : ChunkRead::rows);
    if (node.op == Op::cross_entropy) {
      rows_.insert(node.outputs.begin(), node.outputs.end());
      return id == region_.loss;
    }
    row_axis_[node.outputs[0]] = 0;
    has_derivative_ = true;
    return true;
  }

  bool add_elementwise(const Node& node, LossNode& added) {
    const Shape& shape = graph_.type(region_.logits).shape;
    if (op_class(node.op) != OpClass::elementwise || graph_.type(node.outputs[0]).shape != shape) return false;
    for (const Value value : node.inputs) {
      const Shape& operand = graph_.type(value).shape;
      const bool has_rows = operand.rank() == 2 && operand[0] == region_.rows;
      if (is_wide(value) && row_axis_.at(value) != 0) return false;
      added.reads.push_back(is_inside(value) ? ChunkRead::chunk : has_rows ? ChunkRead::rows : ChunkRead::whole);
    }
    row_axis_[node.outputs[0]] = 0;
    return true;
  }

  void find_needed() {
    std::set<NodeId> needed;
    for (std::size_t at = last_; at > position_[region_.loss.id]; --at) {
      const NodeId id = graph_.order()[at];
      const auto found = std::ranges::find(region_.nodes, id, &LossNode::id);
      if (found == region_.nodes.end() && !needed.contains(id)) continue;
      if (found == region_.nodes.end()) region_.needed.insert(region_.needed.begin(), id);
      const Node& node = graph_.node(id);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const bool is_chunk = found != region_.nodes.end() && found->reads[i] == ChunkRead::chunk;
        if (!is_chunk) needed.insert(graph_.producer(node.inputs[i]));
      }
    }
  }

  const Graph& graph_;
  const Readers& readers_;
  const std::vector<std::size_t>& position_;
  LossRegion region_;
  std::size_t last_ = 0;           // the position of the last node that reads a value of the logits' shape
  std::map<Value, int> row_axis_;  // of values of the shape of the logits, and of their transposes
  std::set<Value> rows_;           // other values of the region: one for each row, or a row of another length
  std::set<Value> dependent_;
  bool has_derivative_ = false;
};

constexpr std::size_t kLeastLogitsBytes = std::size_t{512} << 20;
constexpr std::size_t kLeastShare = 25;  // one part in so many of the other memory

constexpr std::int64_t kRowMultiple = 128;  // keeps the parts of aligned tensors aligned

// Each chunk has nodes of its own. The pass chooses at most the first number; more than the second are refused.
constexpr std::int64_t kMostChosenChunks = 64;
constexpr std::int64_t kMostChunks = 4096;

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The other memory: the inputs, and the values that backward reads besides the logits. Values that are computed again
// count too, so the share does not depend on checkpointing, which moves the peak away from the loss. Only one
// micro-batch's part of the values that depend on data exists at a time.
std::size_t other_bytes(const Graph& graph, const LossRegion& region, std::int64_t micro_batches) {
  std::set<Value> held;
  for (const NodeId id : graph.inputs()) held.insert(graph.node(id).outputs[0]);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::backward) continue;
    for (const Value value : node.inputs) {
      const Value root = view_root(graph, value);
      if (graph.producer_node(root).phase != Phase::backward) held.insert(root);
    }
  }
  for (const LossNode& node : region.nodes) {
    for (const Value value : graph.node(node.id).outputs) held.erase(value);
  }
  const std::vector<bool> depends = values_of_data(graph);
  std::size_t bytes = 0, of_all_micro_batches = 0;
  for (const Value value : held) (depends[value.id] ? of_all_micro_batches : bytes) += graph.type(value).bytes();
  return bytes + of_all_micro_batches / static_cast<std::size_t>(micro_batches);
}

std::int64_t chosen_rows(const Graph& graph, const LossRegion& region, std::int64_t micro_batches) {
  const std::size_t bytes = graph.type(region.logits).bytes();
  if (bytes < kLeastLogitsBytes || bytes < other_bytes(graph, region, micro_batches) / kLeastShare) return region.rows;
  const std::int64_t chunks = std::min(ceil_divide(region.rows, kLossChunkRows), kMostChosenChunks);
  return ceil_divide(ceil_divide(region.rows, chunks), kRowMultiple) * kRowMultiple;
}

void require_few_chunks(std::int64_t all_rows, std::int64_t rows) {
  if (ceil_divide(all_rows, rows) <= kMostChunks) return;
  throw Error("the loss of " + std::to_string(all_rows) + " tokens in chunks of " + std::to_string(rows) +
                  " has more than " + std::to_string(kMostChunks) + " chunks; give chunks of at least " +
                  std::to_string(ceil_divide(all_rows, kMostChunks)) + " tokens",
              ErrorKind::usage);
}

class LossChunker {
 public:
  // `rounds`: sums that only optimizers read are rounded where the product was.
  LossChunker(Graph& graph, LossRegion region, std::int64_t rows, bool rounds)
      : graph_(graph), readers_(graph), rewriter_(graph), region_(std::move(region)), rounds_(rounds) {
    for (std::int64_t done = 0; done < region_.rows; done += rows)
      sizes_.push_back(std::min(rows, region_.rows - done));
    for (const LossNode& node : region_.nodes) nodes_.insert(node.id);
  }

  void run() {
    for (const NodeId id : region_.needed) graph_.move_before(id, region_.loss);
    graph_.set_insertion_before(region_.loss);
    graph_.set_phase(Phase::loss);
    graph_.set_scope(graph_.scope_name(graph_.node(region_.loss)));
    for (chunk_ = 0; chunk_ < sizes_.size(); ++chunk_) {
      for (const LossNode& node : region_.nodes) compute_chunk(node);
    }
    for (const LossNode& node : region_.nodes) replace_results(node);
    for (const NodeId id : nodes_) rewriter_.remove(id);
    rewriter_.finish();
  }

 private:
  void compute_chunk(const LossNode& of) {
    const Node& node = graph_.node(of.id);
    std::vector<Value> operands;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) operands.push_back(chunk_of(node.inputs[i], of.reads[i]));
    const Node& made =
        graph_.node(of.sums_over_rows ? add_product(node, std::move(operands))
                                      : make_node(graph_, node.op, std::move(operands), node.attributes));
    stand_for(node, graph_.producer(made.outputs[0]));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) chunks_[node.outputs[i]].push_back(made.outputs[i]);
  }

  // The product of the first chunk; for later chunks the running sum.
  NodeId add_product(const Node& node, std::vector<Value> operands) {
    Attributes attributes = node.attributes;
    const std::vector<Value>& before = chunks_[node.outputs[0]];
    if (before.empty()) {
      const DType sums = accumulator(graph_.type(node.inputs[0]).dtype);
      if (sums != graph_.type(node.outputs[0]).dtype) attributes.set("result", std::string(name(sums)));
      return make_node(graph_, Op::matmul, std::move(operands), std::move(attributes));
    }
    operands.push_back(before.back());
    Attributes compute;
    if (attributes.contains("compute")) compute.set("compute", attributes.get<std::string>("compute"));
    return make_node(graph_, Op::matmul_add, std::move(operands), std::move(compute));
  }

  void stand_for(const Node& node, NodeId made) {
    Node& chunk = graph_.node(made);
    chunk.phase = node.phase;
    chunk.scope = node.scope;
    chunk.source = node.source;
    chunk.origin = node.origin;
  }

  Value chunk_of(Value value, ChunkRead read) {
    if (read == ChunkRead::whole) return value;
    if (read == ChunkRead::chunk) return chunks_.at(value).back();
    const int axis = read == ChunkRead::rows ? 0 : 1;
    std::vector<Value>& parts = parts_[{value, axis}];
    if (parts.empty()) {
      parts = split(graph_, value, axis, sizes_);
      for (const Value part : parts) remove_label(part, axis);
    }
    return parts[chunk_];
  }

  // The label of all rows, T, stands for the number of all tokens.
  void remove_label(Value part, int axis) {
    const TensorType& type = graph_.type(part);
    std::vector<Dim> dims(type.shape.dims().begin(), type.shape.dims().end());
    dims[static_cast<std::size_t>(axis)].label = 0;
    graph_.set_type(part, {type.dtype, Shape(dims)});
  }

  void replace_results(const LossNode& of) {
    const Node node = graph_.node(of.id);
    for (const Value value : node.outputs) {
      const auto is_outside = [&](NodeId reader) { return !nodes_.contains(reader); };
      if (!readers_.is_result(value) && std::ranges::none_of(readers_.of(value), is_outside)) continue;
      const std::vector<Value>& chunks = chunks_.at(value);
      if (of.sums_over_rows) {
        replace_sum(node, value, chunks.back());
      } else {
        rewriter_.replace_by_new(value, of_node(node, concat(graph_, chunks, 0)));
      }
    }
  }

  Value of_node(const Node& node, Value made) {
    stand_for(node, graph_.producer(made));
    return made;
  }

  bool is_read_by_optimizers(Value gradient) const {
    return !readers_.is_result(gradient) && std::ranges::all_of(readers_.of(gradient), [&](NodeId id) {
      const Node& node = graph_.node(id);
      return optimizer_layout(node) || reads_gradient(node, 0);
    });
  }

  // Unless sums are rounded, a cast of the low product to the dtype of the sums is replaced by the sums.
  void replace_sum(const Node& node, Value before, Value sum) {
    const DType low = graph_.type(before).dtype;
    const DType wide = graph_.type(sum).dtype;
    if (low == wide) return rewriter_.replace(before, sum);
    const auto is_cast = [&](NodeId id) {
      return graph_.node(id).op == Op::cast && graph_.type(graph_.node(id).outputs[0]).dtype == wide;
    };
    const std::span<const NodeId> readers = readers_.of(before);
    const bool rounds = rounds_ && std::ranges::all_of(readers, [&](NodeId id) {
                          return is_read_by_optimizers(graph_.node(id).outputs[0]);
                        });
    for (const NodeId id : readers) {
      if (!rounds && is_cast(id)) rewriter_.replace(id, sum);
    }
    if (rounds || readers_.is_result(before) || !std::ranges::all_of(readers, is_cast))
      rewriter_.replace(before, of_node(node, cast(graph_, sum, low)));
  }

  Graph& graph_;
  Readers readers_;
  Rewriter rewriter_;
  LossRegion region_;
  bool rounds_;
  std::vector<std::int64_t> sizes_;
  std::set<NodeId> nodes_;
  std::size_t chunk_ = 0;
  std::map<Value, std::vector<Value>> chunks_;                 // of each value of the region
  std::map<std::pair<Value, int>, std::vector<Value>> parts_;  // of each operand, along an axis
};

// Verification has the logits as a result; another run then computes the loss in chunks.
void warn_of_whole_loss(const PassOptions& options) {
  if (options.loss_chunk_rows.value_or(0) == 0 || options.keep.results) return;
  warn_once(
      "loss chunk",
      "the loss is not computed in chunks of " + std::to_string(*options.loss_chunk_rows) + " tokens: " +
          (runs_backward(options.mode)
               ? "more than the cross-entropy reads the logits, as a z-loss, or a bias of the head that is trained"
               : "only a run with a backward phase has chunks"));
}

}  // namespace

bool chunk_loss(Graph& graph, const PassOptions& options) {
  if (!runs_backward(options.mode)) warn_of_whole_loss(options);
  if (!runs_backward(options.mode) || options.loss_chunk_rows == 0) return false;
  // The optimizer of a compiled step reads low gradients (keep_gradients_low), which take half the memory until then.
  const bool rounds = options.mode == Mode::step && options.level != Compile::off;
  bool changed = false, has_region = false;
  std::optional<GraphFacts> facts;
  std::map<std::int64_t, std::int64_t> chosen;  // by the rows of the logits: alike for all micro-batches
  for (const NodeId id : nodes_of(graph)) {
    if (graph.node(id).op != Op::cross_entropy) continue;
    if (!facts) facts.emplace(graph);
    std::optional<LossRegion> region = RegionFinder(graph, *facts, id).run();
    if (!region) continue;
    has_region = true;
    if (!options.loss_chunk_rows && !chosen.contains(region->rows))
      chosen[region->rows] = chosen_rows(graph, *region, options.accumulate);
    const std::int64_t rows = options.loss_chunk_rows ? *options.loss_chunk_rows : chosen[region->rows];
    if (rows >= region->rows) continue;
    require_few_chunks(region->rows, rows);
    LossChunker(graph, std::move(*region), rows, rounds).run();
    facts.reset();
    changed = true;
  }
  if (!has_region) warn_of_whole_loss(options);
  return changed;
}

}  // namespace ridgepoint
