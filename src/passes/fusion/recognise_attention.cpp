// Replaces attention in primitive ops,  cast(softmax(scale q k^T [masked])) v,  by the attention op where the device
// has kernels for it and for its derivative. It runs before differentiation, so that backward does not read the scores.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/permutation.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/layout.h"
#include "ops/rule.h"
#include "ops/shape_rules.h"
#include "passes/pass.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// transpose(base, permutation) * factor, rounded to `dtype` at some point
struct ScaledTranspose {
  Value base;
  DType dtype = DType::fp32;
  Permutation permutation;
  double factor = 1.0;
};

struct AttentionPattern {
  ScaledTranspose q;          // [...,S,D]
  ScaledTranspose keys;       // [...,D,K], the transposed keys
  ScaledTranspose v;          // [...,K,D]
  AttentionForm form;         // its scale includes the factors of q and keys; it is positive and finite
  std::vector<NodeId> nodes;  // from the last matmul to the first; only nodes of the pattern read their values
};

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

// Follows `value` upwards through transposes, scales and a rounding, and returns their composition. Stops at a value
// with other readers, because that value is computed anyway. Also stops at a scale before a rounding to a type with a
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

// Whether the value is an expanded view.
bool is_expanded(const Graph& graph, Value value) {
  return graph.type(value).elements() > graph.type(view_root(graph, value)).elements();
}

std::vector<std::int64_t> sizes_without(const Shape& shape, int axis) {
  std::vector<std::int64_t> sizes = sizes_of(shape);
  sizes.erase(sizes.begin() + axis);
  return sizes;
}

// x [...,N,K,D] of its repetition [...,N,G,K,D] by reshape and broadcast.
std::optional<Value> repeated_heads(const Graph& graph, Value value) {
  const Node& node = graph.producer_node(value);
  const Shape& shape = graph.type(value).shape;
  if (node.op != Op::broadcast || shape.rank() < 4) return std::nullopt;
  const Shape& one = graph.type(node.inputs[0]).shape;
  const int group = shape.rank() - 3;
  const Node& inserted = graph.producer_node(node.inputs[0]);
  const bool repeats =
      one.rank() == shape.rank() && one[group] == 1 && sizes_without(one, group) == sizes_without(shape, group);
  if (!repeats || inserted.op != Op::reshape) return std::nullopt;
  const Value heads = inserted.inputs[0];
  return sizes_of(graph.type(heads).shape) == sizes_without(one, group) ? std::optional(heads) : std::nullopt;
}

// x [...,H,S,D] of its reshape to [...,N,G,S,D].
std::optional<Value> grouped_heads(const Graph& graph, Value value) {
  const Node& node = graph.producer_node(value);
  const Shape& shape = graph.type(value).shape;
  if (node.op != Op::reshape || shape.rank() < 4) return std::nullopt;
  std::vector<std::int64_t> merged = sizes_without(shape, shape.rank() - 3);
  merged.end()[-3] *= shape[-3];
  return sizes_of(graph.type(node.inputs[0]).shape) == merged ? std::optional(node.inputs[0]) : std::nullopt;
}

// A permutation of the last two axes alone, for one axis less; empty for others.
std::optional<Permutation> without_group(const Permutation& permutation) {
  const auto rank = static_cast<int>(permutation.size());
  for (int axis = 0; axis < rank - 2; ++axis) {
    if (permutation[static_cast<std::size_t>(axis)] != axis) return std::nullopt;
  }
  const Permutation same = identity_permutation(rank - 1);
  return permutation.back() == rank - 1 ? same : with_last_two_swapped(same);
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

// The operand of a causal mask: of causal_mask or of its decomposition into where() without a window, with a fill of
// -inf.
std::optional<Value> causally_masked(const Graph& graph, const Node& node) {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  if (node.op == Op::causal_mask)
    return node.attributes.get<double>("fill") == kMasked ? std::optional(node.inputs[0]) : std::nullopt;
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
    v_ = last.inputs[1];
    low_ = graph_.type(v_).dtype;
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
    if (reduced_rows(Op::reduce_sum, node.inputs[1], graph_.type(exponentials).shape) != exponentials)
      return std::nullopt;
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

  // From the scores to q k^T, through a causal mask, a soft cap, scales and casts.
  std::optional<NodeId> product_of_scores(Value scores) {
    while (is_low_or_wide(scores)) {
      const NodeId id = graph_.producer(scores);
      const Node& node = record(id);
      if (node.op == Op::matmul) return id;
      if (node.op == Op::cast) {
        scores = node.inputs[0];
      } else if (const std::optional<Scaling> scaling = scaling_of(graph_, node)) {
        found_.form.scale *= scaling->factor;
        scores = scaling->operand;
      } else if (node.op == Op::soft_cap && found_.form.scale == 1 && found_.form.soft_cap == 0) {
        found_.form.soft_cap = node.attributes.get<double>("cap");
        scores = node.inputs[0];
      } else if (const std::optional<Value> masked = causally_masked(graph_, node); masked && takes_mask(node)) {
        scores = *masked;
      } else {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  // A mask before the cap would leave no score at -inf, and two windows are none that the op has.
  bool takes_mask(const Node& mask) {
    if (found_.form.soft_cap > 0 || found_.form.window > 0) return false;
    found_.form.causal = true;
    found_.form.window = mask.op == Op::causal_mask ? mask.attributes.get_or<std::int64_t>("window", 0) : 0;
    return true;
  }

  bool take_operands(NodeId product) {
    const Node& node = graph_.node(product);
    found_.q = scaled_transpose_of(graph_, readers_, node.inputs[0], product);
    found_.keys = scaled_transpose_of(graph_, readers_, node.inputs[1], product);
    const TensorType& values = graph_.type(v_);
    found_.v = {v_, values.dtype, identity_permutation(values.shape.rank())};
    found_.form.scale *= found_.q.factor * found_.keys.factor;
    if (is_expanded(graph_, found_.keys.base)) return take_shared_heads(found_.nodes.front());
    const Permutation& permutation = found_.keys.permutation;
    // The op reads keys as rows; keys that are stored as columns would have to be copied.
    const bool are_rows = permutation.end()[-1] < permutation.end()[-2];
    return are_rows && !is_expanded(graph_, found_.q.base) && !is_expanded(graph_, v_);
  }

  // Replaces repeated keys and values, and grouped queries, by the tensors that they are views of.
  bool take_shared_heads(NodeId last_product) {
    found_.v = scaled_transpose_of(graph_, readers_, v_, last_product);
    const auto take = [&](ScaledTranspose& operand, auto view_of) {
      const std::optional<Value> base = view_of(graph_, operand.base);
      const std::optional<Permutation> permutation = without_group(operand.permutation);
      if (!base || !permutation || is_expanded(graph_, *base)) return false;
      operand.base = *base;
      operand.permutation = *permutation;
      return true;
    };
    return found_.v.factor == 1 && take(found_.q, grouped_heads) && take(found_.keys, repeated_heads) &&
           take(found_.v, repeated_heads) && is_identity(found_.q.permutation) && is_identity(found_.v.permutation) &&
           !is_identity(found_.keys.permutation);
  }

  bool is_supported() const {
    const Node& product = graph_.node(found_.nodes.back());
    const TensorType& q = graph_.type(product.inputs[0]);
    const TensorType& v = graph_.type(v_);
    const bool one_head_size = q.shape[-1] == v.shape[-1];
    const bool one_length = q.shape[-2] == v.shape[-2];
    return q.dtype == low_ && one_head_size && (one_length || !found_.form.causal) && q.elements() > 0 &&
           v.elements() > 0 && std::isfinite(found_.form.scale) && found_.form.scale > 0;
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
  Value v_;                   // the second operand of the last product
  DType low_ = DType::fp32;   // of the operands
  DType wide_ = DType::fp32;  // of the scores inside the attention op
};

// The attention that ends in the matmul `last_product`; nullopt unless the attention op computes the same function from
// the same operands. It requires: a softmax over keys that subtracts the row maximum, in the type that the op uses for
// scores; a constant scale; a soft cap or none; no mask, or a causal mask of -inf with a window or without; one head
// size. Keys and values that several heads share must be repeated as KeyHeads (ops/attention_form.h) repeats them.
// Casts to the type of the operands may round operands and scores, as autocast inserts them; the op does not round the
// scores.
std::optional<AttentionPattern> find_attention(const Graph& graph, const Readers& readers, NodeId last_product) {
  return Matcher(graph, readers).match(last_product);
}

Value build(Graph& graph, const ScaledTranspose& operand) {
  Value value = operand.base;
  if (graph.type(value).dtype != operand.dtype) value = cast(graph, value, operand.dtype);
  return is_identity(operand.permutation) ? value : transpose(graph, value, operand.permutation);
}

// The innermost module that contains both scopes.
std::string common_scope(const std::string& a, const std::string& b) {
  const auto [end, end_of_b] = std::ranges::mismatch(a, b);
  const auto ends = [](const std::string& text, auto at) { return at == text.end() || *at == '.'; };
  if (ends(a, end) && ends(b, end_of_b)) return {a.begin(), end};
  const std::string shared(a.begin(), end);
  const std::size_t dot = shared.rfind('.');
  return dot == std::string::npos ? "" : shared.substr(0, dot);
}

bool has_kernels(const Graph& graph, const Node& attention, const PassOptions& options) {
  Node backward;
  backward.op = Op::attention_backward;
  backward.inputs = {attention.outputs[0]};
  backward.inputs.insert(backward.inputs.end(), attention.inputs.begin(), attention.inputs.end());
  backward.inputs.insert(backward.inputs.end(), attention.outputs.begin(), attention.outputs.end());
  backward.attributes = attention.attributes;
  return options.target.has_kernel(graph, attention) && options.target.has_kernel(graph, backward);
}

// Inserts the op before the last matmul; empty where the device has no kernel for it.
std::optional<Value> make_attention(Graph& graph, Rewriter& rewriter, const AttentionPattern& pattern,
                                    const PassOptions& options) {
  const NodeId last_product = pattern.nodes.front();
  const Node& last = graph.node(last_product);
  const Node& first = graph.node(pattern.nodes.back());
  rewriter.insert_before(last_product, common_scope(graph.scope_name(last), graph.scope_name(first)));
  const Value q = build(graph, pattern.q);
  ScaledTranspose keys = pattern.keys;
  keys.permutation = with_last_two_swapped(std::move(keys.permutation));
  const Value k = build(graph, keys);
  const Value o = attention(graph, q, k, build(graph, pattern.v), pattern.form).first;
  if (!has_kernels(graph, graph.producer_node(o), options)) {
    rewriter.erase_inserted();
    return std::nullopt;
  }
  const TensorType& type = graph.type(last.outputs[0]);
  if (type.shape.rank() != graph.type(o).shape.rank()) return reshape(graph, o, type.shape);  // heads share keys
  graph.set_type(o, type);                                                                    // with its labels
  return o;
}

}  // namespace

bool recognise_attention(Graph& graph, const PassOptions& options) {
  if (options.level == Compile::off) return false;
  // `readers` stay valid, because the graph changes only in finish() and patterns do not overlap.
  const Readers readers(graph);
  Rewriter rewriter(graph);
  for (const NodeId id : nodes_of(graph)) {
    const std::optional<AttentionPattern> pattern = find_attention(graph, readers, id);
    if (!pattern) continue;
    const std::optional<Value> o = make_attention(graph, rewriter, *pattern, options);
    if (!o) continue;
    rewriter.replace(graph.node(id).outputs[0], *o);
    for (const NodeId node : pattern->nodes) rewriter.remove(node);
  }
  return rewriter.finish();
}

}  // namespace ridgepoint
