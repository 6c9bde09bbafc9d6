// attention: o = softmax(scores) v with scores = cap tanh(scale q k^T / cap) [masked], and the log-sum-exp of each row
// of scores. attention_backward computes the derivative from these two results (Dao et al. 2022), so that no S x S
// tensor is saved. Scores, exponentials and sums have the accumulator dtype of the operands. Attributes:
//   scale     a factor of the scores
//   causal    query i attends to keys 0 to i
//   window    and of these to the last `window` only; absent or 0: to all of them
//   soft_cap  the cap of the scores (Gemma 2); absent or 0: they have none
//   compute   passed to the matmuls of the decomposition (ops/rules/matmul.cpp)
// A fourth operand, if there is one, is a sink for each head (ops/attention_form.h). The backward of attention is then
// that of the keys alone with the result and the log-sum-exp that have the sinks: for both, the probabilities are
// exp(scores - log-sum-exp), and the sink's own probability times the value 0 adds nothing.
// Keys and values [...,N,K,D] may have fewer heads than queries [...,H,S,D] (grouped-query attention, Ainslie et al.
// 2023): head h of the queries reads head h / (H / N). Their gradients are those of each head of the queries; the
// derivative of attention adds them up. With the tables of rotary embedding (ops/attention_form.h), attention_backward
// rotates the gradients of q and k back.
#include <limits>
#include <utility>

#include "ops/attention_form.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

Shape without_last(const Shape& shape) { return Shape(std::vector<Dim>(shape.dims().begin(), shape.dims().end() - 1)); }
Shape as_column(const Shape& rows) {
  std::vector<Dim> dims(rows.dims().begin(), rows.dims().end());
  dims.push_back(Dim(1));
  return Shape(dims);
}

// `x` itself where it has the shape already.
Value with_shape(Graph& graph, Value x, const Shape& shape) {
  return graph.type(x).shape == shape ? x : reshape(graph, x, shape);
}

void require_operands(const TensorType& q, const TensorType& k, const TensorType& v, const Attributes& attributes) {
  const int rank = q.shape.rank();
  require(rank >= 2 && k.shape.rank() == rank && v.shape.rank() == rank, "q, k and v must be [...,S,D] of one rank");
  for (int axis = 0; axis < rank - 2; ++axis) {
    const bool are_heads = axis == rank - 3;
    require(k.shape[axis] == v.shape[axis] && (are_heads || q.shape[axis] == k.shape[axis]),
            "the leading dimensions of q, k and v must be equal");
    require(!are_heads || (k.shape[axis] > 0 ? q.shape[axis] % k.shape[axis] == 0 : q.shape[axis] == 0), [&] {
      return "the " + std::to_string(k.shape[axis]) + " heads of k and v must divide the " +
             std::to_string(q.shape[axis]) + " heads of q";
    });
  }
  require(q.shape[-1] == k.shape[-1] && k.shape[-1] == v.shape[-1], "q, k and v must have one head size");
  require(k.shape[-2] == v.shape[-2], "there must be a value for each key");
  require(k.shape[-2] > 0 && q.shape[-1] > 0, "the sequence and the head size must be positive");
  attributes.get<double>("scale");
  const AttentionForm form = attention_form(attributes);
  require(form.soft_cap >= 0, "the soft cap must not be negative");
  require(form.window >= 0, "the window must not be negative");
  require(form.window == 0 || form.causal, "a window needs causal attention");
  require(!form.causal || q.shape[-2] == k.shape[-2], [&] {
    return "causal attention needs as many queries (" + std::to_string(q.shape[-2]) + ") as keys (" +
           std::to_string(k.shape[-2]) + ")";
  });
}

std::vector<TensorType> infer_attention(const ShapeContext& context) {
  const TensorType& q = context.inputs[0];
  const DType dtype = q.dtype;
  for (std::size_t i = 0; i < 3; ++i) {
    require(is_floating(context.inputs[i].dtype), "operands must be floating; cast first");
    require(context.inputs[i].dtype == dtype, "operands must share a dtype; cast first");
  }
  if (context.inputs.size() > 3) {
    const TensorType& sinks = context.inputs[3];
    require(is_floating(sinks.dtype) && sinks.shape.rank() == 1 && q.shape.rank() >= 3 && sinks.shape[0] == q.shape[-3],
            "the sinks must be floating [H], one for each head of q [...,H,S,D]");
  }
  require_compute(context.attributes, dtype);
  require_operands(q, context.inputs[1], context.inputs[2], context.attributes);
  return {q, {accumulator(dtype), without_last(q.shape)}};
}

// The operands of one node as the decompositions read them: where heads share keys, q is [...,N,G,S,D], and k and v are
// repeated to [...,N,G,K,D].
class Operands {
 public:
  Operands(Graph& graph, const Node& node, std::size_t first)
      : graph_(graph),
        attributes_(node.attributes),
        form_(attention_form(node.attributes)),
        heads_(graph,
               heads_per_key_head(graph.type(node.inputs[first]).shape, graph.type(node.inputs[first + 1]).shape)),
        q_(heads_.grouped(node.inputs[first])),
        k_(heads_.repeated(node.inputs[first + 1])),
        v_(heads_.repeated(node.inputs[first + 2])) {}

  const KeyHeads& heads() const { return heads_; }
  Value q() const { return q_; }
  Value k() const { return k_; }
  Value v() const { return v_; }

  Value product(Value a, Value b) {
    Attributes own;
    const std::string compute = attributes_.get_or<std::string>("compute", "");
    if (!compute.empty()) own.set("compute", compute);
    return make_value(graph_, Op::matmul, {a, b}, own);
  }

  // Before the mask, and in the accumulator dtype.
  Value scores() {
    const Value products = cast_to(graph_, product(q_, swap_last_two_axes(graph_, k_)), wide());
    const Value scaled = scale(graph_, products, form_.scale);
    return form_.soft_cap > 0 ? soft_cap(graph_, scaled, form_.soft_cap) : scaled;
  }
  Value masked(Value scores) {
    if (!form_.causal) return scores;
    return causal_mask(graph_, scores, -std::numeric_limits<double>::infinity(), form_.window);
  }
  // The derivative of scores() by scale q k^T, times g.
  Value times_slope(Value g, Value scores) {
    if (form_.soft_cap == 0) return g;
    const Value tanh = scale(graph_, scores, 1.0 / form_.soft_cap);
    return sub(graph_, g, mul(graph_, g, mul(graph_, tanh, tanh)));
  }

  DType wide() const { return accumulator(graph_.type(q_).dtype); }
  double factor() const { return form_.scale; }

 private:
  Graph& graph_;
  const Attributes& attributes_;
  AttentionForm form_;
  KeyHeads heads_;
  Value q_, k_, v_;
};

std::vector<Value> decompose_attention(Graph& graph, const Node& node) {
  const TensorType result = graph.type(node.outputs[0]);
  const Shape rows = graph.type(node.outputs[1]).shape;
  Operands operands(graph, node, 0);
  const Value scores = operands.masked(operands.scores());
  Value top = reduce_max(graph, scores, {-1}, true);
  Value sink;
  if (has_sinks(node)) {
    const Value column = sink_column(graph, node.inputs[3], operands.heads().group());
    std::vector<Dim> dims(graph.type(column).shape.dims().begin(), graph.type(column).shape.dims().end());
    dims.push_back(Dim(1));
    sink = cast_to(graph, reshape(graph, column, Shape(dims)), operands.wide());
    top = maximum(graph, top, sink);
  }
  top = detach(graph, top);
  const Value exponentials = exp(graph, sub(graph, scores, top));
  Value sum = reduce_sum(graph, exponentials, {-1}, true);
  if (sink.valid()) sum = add(graph, sum, exp(graph, sub(graph, sink, top)));
  const Value o = operands.product(cast_to(graph, div(graph, exponentials, sum), result.dtype), operands.v());
  return {with_shape(graph, o, result.shape), reshape(graph, add(graph, top, log(graph, sum)), rows)};
}

// The gradient of keys or values, given for each head of the queries, [...,H,K,D] or [...,N,G,K,D], as that of the
// operand.
Value sum_over_group(Graph& graph, Value gradient, const Shape& operand) {
  const TensorType type = graph.type(gradient);
  if (type.shape.rank() > operand.rank()) return reduce_sum(graph, gradient, {-3});
  const std::int64_t group = heads_per_key_head(type.shape, operand);
  if (group == 1) return gradient;
  std::vector<Dim> dims(operand.dims().begin(), operand.dims().end());
  dims.insert(dims.end() - 2, Dim(group));
  return reduce_sum(graph, reshape(graph, gradient, Shape(dims)), {-3});
}

// Minus the sink's probabilities times the sums of g o, over all but the heads.
Value gradient_of_sinks(Graph& graph, const Node& node, Value g) {
  const TensorType sinks = graph.type(node.inputs[3]);
  const Value o = node.outputs[0], lse = node.outputs[1];
  const DType wide = graph.type(lse).dtype;
  const Value wide_o = cast_to(graph, o, wide);
  const Value products = reduce_sum(graph, mul(graph, cast_to(graph, g, wide), wide_o), {-1});
  const Value sink = cast_to(graph, sink_column(graph, node.inputs[3]), wide);
  const Value each = mul(graph, exp(graph, sub(graph, sink, lse)), products);
  std::vector<std::int64_t> axes;
  const int rank = graph.type(each).shape.rank();
  for (int axis = 0; axis < rank; ++axis) {
    if (axis != rank - 2) axes.push_back(axis);
  }
  return cast_to(graph, neg(graph, reduce_sum(graph, each, axes)), sinks.dtype);
}

std::vector<Value> vjp_attention(Graph& graph, const Node& made_by, std::span<const Value> g) {
  const Node node = made_by;                     // new nodes may move it
  if (!g[0].valid() || g[1].valid()) return {};  // a gradient of the log-sum-exp needs the decomposition
  const Value k = node.inputs[1];
  const Node& made = graph.node(make_node(graph, Op::attention_backward,
                                          {g[0], node.inputs[0], k, node.inputs[2], node.outputs[0], node.outputs[1]},
                                          node.attributes));
  const std::vector<Value> gradients = made.outputs;
  const Shape keys = graph.type(k).shape;
  std::vector<Value> all = {gradients[0], sum_over_group(graph, gradients[1], keys),
                            sum_over_group(graph, gradients[2], keys)};
  if (has_sinks(node)) all.push_back(gradient_of_sinks(graph, node, g[0]));
  return all;
}

// The shape of the gradient of keys and values: with the heads of the queries.
TensorType gradient_of_keys(const TensorType& q, const TensorType& k) {
  std::vector<Dim> dims(q.shape.dims().begin(), q.shape.dims().end());
  dims.end()[-2] = k.shape.dim(-2);
  return {k.dtype, Shape(dims)};
}

void require_rotary_tables(const ShapeContext& context) {
  const TensorType& q = context.inputs[1];
  const TensorType& cosines = context.inputs[kCosinesOfAttention];
  require(cosines == context.inputs[kSinesOfAttention] && cosines.dtype == accumulator(q.dtype),
          "the tables of rotary embedding must have one shape, in fp32 (fp64 for fp64)");
  require(q.shape[-2] == context.inputs[2].shape[-2], "rotary embedding needs as many queries as keys");
  require(cosines.shape.rank() == 2 && cosines.shape[0] == q.shape[-2] && 2 * cosines.shape[1] <= q.shape[-1],
          "the tables of rotary embedding must be [S,R/2] with R at most the head size");
}

std::vector<TensorType> infer_attention_backward(const ShapeContext& context) {
  const TensorType& q = context.inputs[1];
  require_compute(context.attributes, q.dtype);
  require_operands(q, context.inputs[2], context.inputs[3], context.attributes);
  for (const std::size_t i : {0, 2, 3, 4})
    require(context.inputs[i].dtype == q.dtype && is_floating(q.dtype), "operands must be of one floating dtype");
  require(context.inputs[0].shape == q.shape && context.inputs[4].shape == q.shape,
          "the result and its gradient must have the shape of q");
  require(context.inputs[5] == TensorType{accumulator(q.dtype), without_last(q.shape)},
          "the log-sum-exp must be [...,S], in fp32 (fp64 for fp64)");
  if (context.inputs.size() > kCosinesOfAttention) require_rotary_tables(context);
  if (context.attributes.get_or(kSumsKeyGradients, false)) return {q, context.inputs[2], context.inputs[3]};
  return {q, gradient_of_keys(q, context.inputs[2]), gradient_of_keys(q, context.inputs[3])};
}

// x [...,S,D] rotated back by the tables of the node, if it has any.
Value turned_back(Graph& graph, const Node& node, Value x) {
  if (!has_rotary_tables(node)) return x;
  const Value cosines = node.inputs[kCosinesOfAttention];
  const std::int64_t width = graph.type(x).shape[-1];
  const std::int64_t rotated = 2 * graph.type(cosines).shape[1];
  const auto turn = [&](Value part) { return rope(graph, part, cosines, node.inputs[kSinesOfAttention], -2, true); };
  if (rotated == width) return turn(x);
  const std::vector<Value> parts = split(graph, x, -1, {rotated, width - rotated});
  return concat(graph, {turn(parts[0]), parts[1]}, -1);
}

// With p = exp(scores - lse):  dv = p^T do,  ds = scale slope p (do v^T - sum(do o)),  dq = ds k,  dk = ds^T q, where
// slope is the derivative of the soft cap. exp() does not overflow, because o and lse are the results of attention for
// the same q, k and v.
std::vector<Value> decompose_attention_backward(Graph& graph, const Node& node) {
  const std::vector<Value>& inputs = node.inputs;
  const auto shaped = [&](Value x, std::size_t output) {
    const Shape& shape = graph.type(node.outputs[output]).shape;
    return with_shape(graph, output > 0 && sums_key_gradients(node) ? sum_over_group(graph, x, shape) : x, shape);
  };
  Operands operands(graph, node, 1);
  const DType dtype = graph.type(inputs[1]).dtype;
  const DType wide = operands.wide();
  const Value d_o = operands.heads().grouped(inputs[0]);
  const Value o = operands.heads().grouped(inputs[4]);
  const Value lse = operands.heads().grouped(inputs[5], 1);
  const Value scores = operands.scores();
  const Value masked = operands.masked(scores);
  const Value p = exp(graph, sub(graph, masked, reshape(graph, lse, as_column(graph.type(lse).shape))));
  const Value dv = operands.product(swap_last_two_axes(graph, cast_to(graph, p, dtype)), d_o);
  const Value dp = cast_to(graph, operands.product(d_o, swap_last_two_axes(graph, operands.v())), wide);
  const Value wide_o = cast_to(graph, o, wide);
  const Value products = mul(graph, cast_to(graph, d_o, wide), wide_o);
  const Value difference = sub(graph, dp, reduce_sum(graph, products, {-1}, true));
  const Value slope = operands.times_slope(mul(graph, p, difference), scores);
  const Value ds = cast_to(graph, scale(graph, slope, operands.factor()), dtype);
  const Value dq = shaped(operands.product(ds, operands.k()), 0);
  const Value dk = shaped(operands.product(swap_last_two_axes(graph, ds), operands.q()), 1);
  return {turned_back(graph, node, dq), turned_back(graph, node, dk), shaped(dv, 2)};
}

}  // namespace

extern const OpRule rule_attention{
    .infer = infer_attention, .vjp = vjp_attention, .first_accumulator_operand = 3, .decompose = decompose_attention};
extern const OpRule rule_attention_backward{
    .infer = infer_attention_backward, .first_accumulator_operand = 5, .decompose = decompose_attention_backward};

Attributes attributes_of(const AttentionForm& form) {
  Attributes attributes{{"causal", form.causal}, {"scale", form.scale}};
  if (form.window > 0) attributes.set("window", form.window);
  if (form.soft_cap > 0) attributes.set("soft_cap", form.soft_cap);
  return attributes;
}

AttentionForm attention_form(const Attributes& attributes) {
  return {.scale = attributes.get<double>("scale"),
          .causal = attributes.get<bool>("causal"),
          .window = attributes.get_or<std::int64_t>("window", 0),
          .soft_cap = attributes.get_or<double>("soft_cap", 0)};
}

Value sink_column(Graph& graph, Value sinks, std::int64_t group) {
  const Dim heads = graph.type(sinks).shape.dim(0);
  if (group == 1) return reshape(graph, sinks, {heads, Dim(1)});
  return reshape(graph, sinks, {Dim(heads.size / group), Dim(group), Dim(1)});
}

Value KeyHeads::grouped(Value x, int after) const {
  if (group_ == 1) return x;
  const Shape& shape = graph_.type(x).shape;
  std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
  const auto heads = dims.end() - after - 1;
  const bool is_labelled = heads->label == 'H';
  *heads = Dim(heads->size / group_, is_labelled ? 'N' : heads->label);
  dims.insert(heads + 1, Dim(group_, is_labelled ? 'G' : 0));
  return reshape(graph_, x, Shape(dims));
}

Value KeyHeads::repeated(Value x) const {
  if (group_ == 1) return x;
  const Shape& shape = graph_.type(x).shape;
  std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
  const char label = dims.end()[-3].label == 0 ? '\0' : 'G';
  dims.insert(dims.end() - 2, Dim(1));
  const Value one = reshape(graph_, x, Shape(dims));
  dims.end()[-3] = Dim(group_, label);
  return broadcast(graph_, one, Shape(dims));
}

std::pair<Value, Value> attention(Graph& graph, Value q, Value k, Value v, const AttentionForm& form,
                                  const Source& source) {
  const Node& made = graph.node(make_node(graph, Op::attention, {q, k, v}, attributes_of(form), source));
  return {made.outputs[0], made.outputs[1]};
}

}  // namespace ridgepoint
