#include "passes/fusion/attention_pattern.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/layout.h"
#include "ops/rule.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

// A multiplication or division of `operand` by a constant, as a factor that is positive and finite.
struct Scaling {
  Value operand;
  double factor;
};

std::optional<Scaling> scaling_of(const Graph& graph, const Node& node) {
  if (node.op != Op::mul && node.op != Op::div) return std::nullopt;
  const Shape& shape = graph.type(node.outputs[0]).shape;
  for (const std::size_t i : {1, 0}) {
    const std::optional<double> constant = constant_behind(graph, node.inputs[i]);
    const Value other = node.inputs[1 - i];
    if (!constant || !(graph.type(other).shape == shape) || (node.op == Op::div && i == 0)) continue;
    const double factor = node.op == Op::mul ? *constant : 1.0 / *constant;
    if (std::isfinite(factor) && factor > 0) return Scaling{other, factor};
  }
  return std::nullopt;
}

// Whether the node casts fp32 to a low type.
bool is_rounding(const Graph& graph, const Node& node) {
  return node.op == Op::cast && is_low(graph.type(node.outputs[0]).dtype) &&
         graph.type(node.inputs[0]).dtype == DType::fp32;
}

// Follows `value` upwards through transposes, scales and a rounding, and returns what they add up to. It stops at a
// value with other readers, which is computed anyway. It also stops at a scale before a rounding to a type with a
// smaller range than fp32, such as fp16: without the scale, the rounded values may overflow.
ScaledTranspose scaled_transpose_of(const Graph& graph, const Readers& readers, Value value, NodeId reader) {
  const TensorType& type = graph.type(value);
  ScaledTranspose found{value, type.dtype, identity_permutation(type.shape.rank())};
  bool may_scale = true;
  for (;;) {
    const NodeId id = graph.producer(found.base);
    const Node& node = graph.node(id);
    if (node.op == Op::transpose) {
      found.permutation = composed(permutation_of(node), std::move(found.permutation));
      found.base = node.inputs[0];
    } else if (!readers.has_only_reader(found.base, reader)) {
      return found;
    } else if (const std::optional<Scaling> scaling = scaling_of(graph, node)) {
      if (!may_scale) return found;
      found.factor *= scaling->factor;
      found.base = scaling->operand;
    } else if (is_rounding(graph, node)) {
      may_scale = may_scale && has_range_of_fp32(type.dtype);
      found.base = node.inputs[0];
    } else {
      return found;
    }
    reader = id;
  }
}

// Whether the value is an expanded view, such as keys that several heads share.
bool is_expanded(const Graph& graph, Value value) {
  return graph.type(value).elements() > graph.type(view_root(graph, value)).elements();
}

// Whether the value is an index along axis `from_end` (-1 or -2) of scores of that shape.
bool is_index_along(const Graph& graph, Value value, const Shape& scores, int from_end) {
  const auto passes = [&](const Node& node) {
    return node.op == Op::broadcast || (node.op == Op::add && constant_behind(graph, node.inputs[1]) == 0.0);
  };
  while (passes(graph.producer_node(value))) value = graph.producer_node(value).inputs[0];
  const Node& node = graph.producer_node(value);
  const TensorType& type = graph.type(value);
  const bool counts = traits(type.dtype).digits >= traits(DType::fp32).digits;  // bf16 stops at 256
  if (node.op != Op::iota || !counts) return false;
  const int axis = normalise_axis(node.attributes.get<std::int64_t>("axis"), type.shape.rank());
  return axis - type.shape.rank() == from_end && type.shape[from_end] == scores[from_end];
}

// The operand of a causal mask: of causal_mask or of its decomposition into where(), with a fill of -inf.
std::optional<Value> causally_masked(const Graph& graph, const Node& node) {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  if (node.op == Op::causal_mask) {
    return node.attributes.get<double>("fill") == kMasked ? std::optional(node.inputs[0]) : std::nullopt;
  }
  if (node.op != Op::where || constant_behind(graph, node.inputs[2]) != kMasked) return std::nullopt;
  const Shape& shape = graph.type(node.inputs[1]).shape;
  const Node& condition = graph.producer_node(node.inputs[0]);
  const bool is_causal = condition.op == Op::less_equal && shape == graph.type(node.outputs[0]).shape &&
                         is_index_along(graph, condition.inputs[0], shape, -1) &&
                         is_index_along(graph, condition.inputs[1], shape, -2);
  return is_causal ? std::optional(node.inputs[1]) : std::nullopt;
}

// Walks from the last matmul to the first. Each function walks one part of the formula upwards, records its nodes and
// returns the value above it; empty where the graph does not match.
class Matcher {
 public:
  Matcher(const Graph& graph, const Readers& readers) : graph_(graph), readers_(readers) {}

  std::optional<AttentionPattern> match(NodeId last_product) {
    const Node& last = graph_.node(last_product);
    if (last.op != Op::matmul) return std::nullopt;
    record(last_product);
    found_.v = last.inputs[1];
    low_ = graph_.type(found_.v).dtype;
    wide_ = accumulator(low_);
    const std::optional<Value> scores = scores_of_softmax(last.inputs[0]);
    const std::optional<NodeId> product = scores ? product_of_scores(*scores) : std::nullopt;
    if (!product || !take_operands(*product) || !is_supported() || is_read_elsewhere()) return std::nullopt;
    return std::move(found_);
  }

 private:
  const Node& record(NodeId id) {
    found_.nodes.push_back(id);
    return graph_.node(id);
  }
  const Node& record_producer(Value value) { return record(graph_.producer(value)); }

  bool is_low_or_wide(Value value) const {
    const DType dtype = graph_.type(value).dtype;
    return dtype == low_ || dtype == wide_;
  }

  // Skips a cast of scores or weights. The callers check the types on both sides.
  Value operand_of_cast(Value value) {
    const Node& node = graph_.producer_node(value);
    if (node.op != Op::cast) return value;
    record_producer(value);
    return node.inputs[0];
  }

  // From the weights to the scores, through the softmax op or its decomposition.
  std::optional<Value> scores_of_softmax(Value weights) {
    weights = operand_of_cast(weights);
    if (graph_.type(weights).dtype != wide_) return std::nullopt;
    const Node& node = record_producer(weights);
    // The user chose an unfused softmax (kPlainAttribute), so it stays.
    if (node.op == Op::softmax && !node.attributes.get_or(kPlainAttribute, false)) return node.inputs[0];
    if (node.op != Op::div) return std::nullopt;
    const Value exponentials = node.inputs[0];
    if (reduced_rows(Op::reduce_sum, node.inputs[1], graph_.type(exponentials).shape) != exponentials) {
      return std::nullopt;
    }
    const Node& exponential = record_producer(exponentials);
    if (exponential.op != Op::exp) return std::nullopt;
    const Node& shifted = record_producer(operand_of_cast(exponential.inputs[0]));
    if (shifted.op != Op::sub) return std::nullopt;
    // The row maximum must be subtracted, as the op does; otherwise large scores would overflow here but not in the op.
    const Value scores = shifted.inputs[0];
    const bool is_shifted = reduced_rows(Op::reduce_max, shifted.inputs[1], graph_.type(scores).shape) == scores;
    return is_shifted ? std::optional(scores) : std::nullopt;
  }

  // The operand of `reduction` over the last axis, where `value` is its result and broadcasts along the rows of
  // `square`.
  std::optional<Value> reduced_rows(Op reduction, Value value, const Shape& square) {
    const Shape& shape = graph_.type(value).shape;
    return is_column(shape, square) || shape == square ? operand_of_reduction(reduction, value, square) : std::nullopt;
  }

  std::optional<Value> operand_of_reduction(Op reduction, Value value, const Shape& square) {
    for (;;) {
      const Node& node = record_producer(value);
      if (node.inputs.empty()) return std::nullopt;
      const Shape& operand = graph_.type(node.inputs[0]).shape;
      if (node.op == reduction) {
        const auto& axes = node.attributes.get<std::vector<std::int64_t>>("axes");
        const bool is_last = axes.size() == 1 && normalise_axis(axes[0], operand.rank()) == operand.rank() - 1;
        return is_last ? std::optional(node.inputs[0]) : std::nullopt;
      }
      const bool repeats = node.op == Op::broadcast && is_column(operand, square) && graph_.type(value).shape == square;
      const bool keeps_rows = repeats || node.op == Op::detach || node.op == Op::reshape;
      if (!keeps_rows) return std::nullopt;
      value = node.inputs[0];
    }
  }

  static bool is_column(const Shape& shape, const Shape& square) {
    if (shape.rank() != square.rank() || shape[-1] != 1) return false;
    return std::equal(shape.dims().begin(), shape.dims().end() - 1, square.dims().begin(),
                      [](const Dim& a, const Dim& b) { return a.size == b.size; });
  }

  // From the scores to q k^T, through scales, casts and a causal mask.
  std::optional<NodeId> product_of_scores(Value scores) {
    while (is_low_or_wide(scores)) {
      const NodeId id = graph_.producer(scores);
      const Node& node = record(id);
      if (node.op == Op::matmul) return id;
      if (node.op == Op::cast) {
        scores = node.inputs[0];
      } else if (const std::optional<Scaling> scaling = scaling_of(graph_, node)) {
        found_.scale *= scaling->factor;
        scores = scaling->operand;
      } else if (const std::optional<Value> masked = causally_masked(graph_, node)) {
        found_.causal = true;
        scores = *masked;
      } else {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  bool take_operands(NodeId product) {
    const Node& node = graph_.node(product);
    found_.q = scaled_transpose_of(graph_, readers_, node.inputs[0], product);
    found_.keys = scaled_transpose_of(graph_, readers_, node.inputs[1], product);
    found_.scale *= found_.q.factor * found_.keys.factor;
    const Permutation& permutation = found_.keys.permutation;
    // The op reads keys as rows; keys that are stored as columns would have to be copied.
    const bool are_rows = permutation.end()[-1] < permutation.end()[-2];
    return are_rows && !is_expanded(graph_, found_.q.base) && !is_expanded(graph_, found_.keys.base) &&
           !is_expanded(graph_, found_.v);
  }

  bool is_supported() const {
    const Node& product = graph_.node(found_.nodes.back());
    const TensorType& q = graph_.type(product.inputs[0]);
    const TensorType& v = graph_.type(found_.v);
    const bool one_head_size = q.shape[-1] == v.shape[-1];
    const bool one_length = q.shape[-2] == v.shape[-2];
    return q.dtype == low_ && one_head_size && (one_length || !found_.causal) && q.elements() > 0 && v.elements() > 0 &&
           std::isfinite(found_.scale) && found_.scale > 0;
  }

  // Whether a node outside of the pattern reads one of its values, which would then have to be computed anyway.
  bool is_read_elsewhere() const {
    const auto is_inside = [&](NodeId reader) { return std::ranges::find(found_.nodes, reader) != found_.nodes.end(); };
    return std::any_of(found_.nodes.begin() + 1, found_.nodes.end(), [&](NodeId id) {
      const Value value = graph_.node(id).outputs[0];
      return readers_.is_result(value) || !std::ranges::all_of(readers_.of(value), is_inside);
    });
  }

  const Graph& graph_;
  const Readers& readers_;
  AttentionPattern found_;
  DType low_ = DType::fp32;   // of the operands
  DType wide_ = DType::fp32;  // of the scores inside the attention op
};

}  // namespace

std::optional<AttentionPattern> find_attention(const Graph& graph, const Readers& readers, NodeId last_product) {
  return Matcher(graph, readers).match(last_product);
}

}  // namespace ridgepoint
