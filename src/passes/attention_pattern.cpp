#include "passes/attention_pattern.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/layout.h"
#include "ops/rule.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

// What a product or quotient with a constant, positive and finite, multiplies its other operand by.
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

// To a low type. Behind it is no other: what it rounds is not low.
bool is_rounding(const Graph& graph, const Node& node) {
  return node.op == Op::cast && is_low(graph.type(node.outputs[0]).dtype) &&
         graph.type(node.inputs[0]).dtype == DType::fp32;
}

// A value that others read too is computed anyway, so it is not looked behind. A scale behind a rounding to a
// type of a smaller range than fp32's, as fp16's is, stays there: without it, finite numbers may leave that range.
ScaledTranspose behind_scale_and_transposes(const Graph& graph, const Readers& readers, Value value, NodeId reader) {
  const TensorType& type = graph.type(value);
  ScaledTranspose found{value, type.dtype, unmoved_axes(type.shape.rank())};
  bool may_scale = true;
  for (;;) {
    const NodeId id = graph.producer(found.base);
    const Node& node = graph.node(id);
    if (node.op == Op::transpose) {
      found.permutation = composed(permutation_of(node), std::move(found.permutation));
      found.base = node.inputs[0];
    } else if (!readers.is_read_by_alone(found.base, reader)) {
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

// Whether the value repeats elements of what it is a view of, as heads do that share keys.
bool is_expanded(const Graph& graph, Value value) {
  return graph.type(value).elements() > graph.type(view_root(graph, value)).elements();
}

// Counts up along axis `from_end` of scores of that shape.
bool counts_along(const Graph& graph, Value value, const Shape& scores, int from_end) {
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

// The operand of which causal_mask, or the where it stands for, lets the causal part through and no other.
std::optional<Value> causally_masked(const Graph& graph, const Node& node) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  if (node.op == Op::causal_mask) {
    return node.attributes.get<double>("fill") == kHidden ? std::optional(node.inputs[0]) : std::nullopt;
  }
  if (node.op != Op::where || constant_behind(graph, node.inputs[2]) != kHidden) return std::nullopt;
  const Shape& shape = graph.type(node.inputs[1]).shape;
  const Node& condition = graph.producer_node(node.inputs[0]);
  const bool is_causal = condition.op == Op::less_equal && shape == graph.type(node.outputs[0]).shape &&
                         counts_along(graph, condition.inputs[0], shape, -1) &&
                         counts_along(graph, condition.inputs[1], shape, -2);
  return is_causal ? std::optional(node.inputs[1]) : std::nullopt;
}

// Each step backwards notes the nodes it passes and says where it arrived; empty where it is not as it must be.
class Matcher {
 public:
  Matcher(const Graph& graph, const Readers& readers) : graph_(graph), readers_(readers) {}

  std::optional<AttentionPattern> match(NodeId last_product) {
    const Node& last = graph_.node(last_product);
    if (last.op != Op::matmul) return std::nullopt;
    note(last_product);
    found_.v = last.inputs[1];
    low_ = graph_.type(found_.v).dtype;
    wide_ = accumulator(low_);
    const std::optional<Value> scores = behind_softmax(last.inputs[0]);
    const std::optional<NodeId> product = scores ? behind_scale_and_mask(*scores) : std::nullopt;
    if (!product || !take_operands(*product) || !fits() || is_read_elsewhere()) return std::nullopt;
    return std::move(found_);
  }

 private:
  const Node& note(NodeId id) {
    found_.nodes.push_back(id);
    return graph_.node(id);
  }
  const Node& note_producer(Value value) { return note(graph_.producer(value)); }

  bool is_low_or_wide(Value value) const {
    const DType dtype = graph_.type(value).dtype;
    return dtype == low_ || dtype == wide_;
  }

  // Past a cast that changes nothing but how closely scores are kept: their types are looked at on the way.
  Value behind_cast(Value value) {
    const Node& node = graph_.producer_node(value);
    if (node.op != Op::cast) return value;
    note_producer(value);
    return node.inputs[0];
  }

  // From the weights to what softmax, as an op or in plain ops, was taken of.
  std::optional<Value> behind_softmax(Value weights) {
    weights = behind_cast(weights);
    if (graph_.type(weights).dtype != wide_) return std::nullopt;
    const Node& node = note_producer(weights);
    // A softmax asked for as plain ops stays as it was asked for.
    if (node.op == Op::softmax && !node.attributes.get_or(kPlainAttribute, false)) return node.inputs[0];
    if (node.op != Op::div) return std::nullopt;
    const Value exponentials = node.inputs[0];
    if (reduced_rows(Op::reduce_sum, node.inputs[1], graph_.type(exponentials).shape) != exponentials) {
      return std::nullopt;
    }
    const Node& exponential = note_producer(exponentials);
    if (exponential.op != Op::exp) return std::nullopt;
    const Node& shifted = note_producer(behind_cast(exponential.inputs[0]));
    if (shifted.op != Op::sub) return std::nullopt;
    // Without this shift, or with another, the exponentials of large scores overflow, and the op's do not.
    const Value scores = shifted.inputs[0];
    const bool is_shifted = reduced_rows(Op::reduce_max, shifted.inputs[1], graph_.type(scores).shape) == scores;
    return is_shifted ? std::optional(scores) : std::nullopt;
  }

  // What was reduced along its rows alone, where the value, met by something of shape `square`, is the result for the
  // row that each element stands in.
  std::optional<Value> reduced_rows(Op reduction, Value value, const Shape& square) {
    const Shape& shape = graph_.type(value).shape;
    return is_column(shape, square) || shape == square ? reduced_behind(reduction, value, square) : std::nullopt;
  }

  std::optional<Value> reduced_behind(Op reduction, Value value, const Shape& square) {
    for (;;) {
      const Node& node = note_producer(value);
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

  // To the product that makes the scores.
  std::optional<NodeId> behind_scale_and_mask(Value scores) {
    while (is_low_or_wide(scores)) {
      const NodeId id = graph_.producer(scores);
      const Node& node = note(id);
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
    found_.q = behind_scale_and_transposes(graph_, readers_, node.inputs[0], product);
    found_.keys = behind_scale_and_transposes(graph_, readers_, node.inputs[1], product);
    found_.scale *= found_.q.factor * found_.keys.factor;
    const Permutation& turned = found_.keys.permutation;
    // Keys that were never rows would have to be copied to become some.
    const bool were_rows = turned.end()[-1] < turned.end()[-2];
    return were_rows && !is_expanded(graph_, found_.q.base) && !is_expanded(graph_, found_.keys.base) &&
           !is_expanded(graph_, found_.v);
  }

  bool fits() const {
    const Node& product = graph_.node(found_.nodes.back());
    const TensorType& q = graph_.type(product.inputs[0]);
    const TensorType& v = graph_.type(found_.v);
    const bool one_head_size = q.shape[-1] == v.shape[-1];
    const bool one_length = q.shape[-2] == v.shape[-2];
    return q.dtype == low_ && one_head_size && (one_length || !found_.causal) && q.elements() > 0 && v.elements() > 0 &&
           std::isfinite(found_.scale) && found_.scale > 0;
  }

  // Outside of the pattern: its values would have to be made all the same.
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
  DType wide_ = DType::fp32;  // in which the op keeps scores
};

}  // namespace

std::optional<AttentionPattern> find_attention(const Graph& graph, const Readers& readers, NodeId last_product) {
  return Matcher(graph, readers).match(last_product);
}

}  // namespace ridgepoint
