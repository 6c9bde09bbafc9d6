// linear_attention: attention whose keys and values are summed up in a state. For each head, with S_0 = 0 [Dk,Dv] and
// P_t = exp(g_t) S_(t-1):
//   w_t = v_t - P_t^T k_t, or v_t without `delta`;   S_t = P_t + beta_t k_t w_t^T;   o_t = scale S_t^T q_t
// With `delta` it is the gated delta rule (Yang et al. 2024, arXiv:2412.06464), without it Mamba-2's scan (Dao & Gu
// 2024, arXiv:2405.21060). Attributes: scale, delta, and `compute` as for matmul, which the kernels of fp32 need not
// heed.
//
// Kernels take chunks of 64 tokens. Within one, with G the sums of g from its first token on, gamma = exp(G),
// D_ij = exp(G_i - G_j) for j <= i else 0, S the state before it, u_i = beta_i w_i, and strictly lower A_ij = D_ij k_i
// k_j beta_j:
//   (I + A) w = v - gamma k S,   o = scale (gamma q S + (q k^T D) u),   S' = gamma_n S + (exp(G_n - G) k)^T u
// The derivative needs no result of the forward but computes the states before the chunks again: they would take
// Dk / 32 times the memory of v. dg_t is the sum of o_s do_s - v_s dv_s over s >= t.
//
// There is no decomposition: each chunk would be some twenty nodes, and a model of 48 layers and 8,192 tokens a hundred
// thousand. The reference back end computes the recurrence above, token by token, in double.
#include "ops/linear_attention_form.h"

#include <algorithm>

#include "core/checked.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

TensorType row_values(const TensorType& rows) {
  return {accumulator(rows.dtype), Shape(std::vector<Dim>(rows.shape.dims().begin(), rows.shape.dims().end() - 1))};
}

// q, k, v, g and beta.
void require_state_operands(std::span<const TensorType> operands, const Attributes& attributes) {
  const TensorType& q = operands[0];
  const TensorType& k = operands[1];
  const TensorType& v = operands[2];
  const int rank = q.shape.rank();
  require(is_floating(q.dtype) && k.dtype == q.dtype && v.dtype == q.dtype,
          "q, k and v must be of one floating dtype; cast first");
  require_compute(attributes, q.dtype);
  require(rank >= 2 && k.shape == q.shape, "q and k must be [...,S,Dk] of one shape");
  require(v.shape.rank() == rank, "v must be [...,S,Dv] of the rank of q and k");
  for (int axis = 0; axis < rank - 1; ++axis) {
    const bool are_heads = axis == rank - 3;
    require(are_heads || v.shape[axis] == q.shape[axis],
            "q, k and v must have the same leading dimensions and as many tokens");
    require(!are_heads || (q.shape[axis] > 0 ? v.shape[axis] % q.shape[axis] == 0 : v.shape[axis] == 0), [&] {
      return "the " + std::to_string(q.shape[axis]) + " heads of q and k must divide the " +
             std::to_string(v.shape[axis]) + " heads of v";
    });
  }
  require(q.shape[-1] > 0 && v.shape[-1] > 0, "rows of q, k and v must not be empty");
  for (const TensorType& row : operands.subspan(3, 2))
    require(row == row_values(v),
            [&] { return "g and beta must be " + row_values(v).to_string() + ", a number for each row of v"; });
  linear_attention_form(attributes);
}

std::vector<TensorType> infer_linear_attention(const ShapeContext& context) {
  require_state_operands(context.inputs, context.attributes);
  return {context.inputs[2]};
}

std::vector<TensorType> infer_linear_attention_backward(const ShapeContext& context) {
  require_state_operands(context.inputs.subspan(1), context.attributes);
  require(context.inputs[0] == context.inputs[3], "the gradient of the result must be of the type of v");
  return {context.inputs.begin() + 1, context.inputs.end()};
}

std::vector<Value> vjp_linear_attention(Graph& graph, const Node& node, std::span<const Value> g) {
  std::vector<Value> operands = {g[0]};
  operands.insert(operands.end(), node.inputs.begin(), node.inputs.end());
  return graph.node(make_node(graph, Op::linear_attention_backward, std::move(operands), node.attributes)).outputs;
}

// Those of the chunked form: two for each product and sum of its matrix products and, for the inverse of I + A, n^3 / 3
// for a chunk of n tokens.
std::int64_t flops_of_chunks(const Graph& graph, const Node& node, bool is_backward) {
  const std::size_t first = is_backward ? 1 : 0;
  const LinearAttentionSizes sizes(graph.type(node.inputs[first + 1]).shape, graph.type(node.inputs[first + 2]).shape);
  const std::int64_t delta = linear_attention_form(node.attributes).delta ? 1 : 0;
  // How many products there are of n x n x Dk for a key head and for a head, of n x n x Dv and of n x Dk x Dv.
  const std::int64_t of_keys = 1 + delta, of_heads = is_backward ? 2 + delta : 0;
  const std::int64_t of_values = is_backward ? 2 + 3 * delta : 1 + delta;
  const std::int64_t of_states = is_backward ? 5 + 3 * delta : 2 + delta;
  const auto flops_of_chunk = [&](std::int64_t n) {
    const std::int64_t square = 2 * n * n;
    return sizes.key_heads * of_keys * square * sizes.key_width +
           sizes.heads * (square * (of_heads * sizes.key_width + of_values * sizes.value_width) +
                          delta * n * n * n / 3 + of_states * 2 * n * sizes.key_width * sizes.value_width);
  };
  constexpr std::string_view kWhat = "the number of operations of a linear attention";
  const std::int64_t whole = sizes.tokens / kLinearAttentionChunk;
  return checked_sum({checked_product({sizes.batch, whole, flops_of_chunk(kLinearAttentionChunk)}, kWhat),
                      checked_product({sizes.batch, flops_of_chunk(sizes.tokens % kLinearAttentionChunk)}, kWhat)},
                     kWhat);
}

std::int64_t flops_linear_attention(const Graph& graph, const Node& node) {
  return flops_of_chunks(graph, node, false);
}
std::int64_t flops_linear_attention_backward(const Graph& graph, const Node& node) {
  return flops_of_chunks(graph, node, true);
}

Value linear_attention(Graph& graph, std::vector<Value> operands, double scale, bool delta, const Source& source) {
  return make_value(graph, Op::linear_attention, std::move(operands), {{"delta", delta}, {"scale", scale}}, source);
}

}  // namespace

extern const OpRule rule_linear_attention{.infer = infer_linear_attention,
                                          .vjp = vjp_linear_attention,
                                          .first_accumulator_operand = 3,
                                          .flops = flops_linear_attention};
extern const OpRule rule_linear_attention_backward{
    .infer = infer_linear_attention_backward, .first_accumulator_operand = 4, .flops = flops_linear_attention_backward};

Value gated_delta_rule(Graph& graph, Value q, Value k, Value v, Value g, Value beta, double scale,
                       const Source& source) {
  return linear_attention(graph, {q, k, v, g, beta}, scale, true, source);
}

Value state_space_scan(Graph& graph, Value x, const StateSpace& space, const Source& source) {
  const auto heads_first = [&](Value rows) { return transpose(graph, rows, {0, 2, 1, 3}); };
  const auto values_first = [&](Value rows) { return transpose(graph, rows, {0, 2, 1}); };
  require(graph.type(x).shape.rank() == 4 && graph.type(space.b).shape.rank() == 4 &&
              graph.type(space.c).shape.rank() == 4 && graph.type(space.dt).shape.rank() == 3,
          [&] {
            return "a state space scan takes x [B,S,H,P], dt [B,S,H], b and c [B,S,G,N], not " +
                   graph.type(x).to_string() + ", " + graph.type(space.dt).to_string() + ", " +
                   graph.type(space.b).to_string() + " and " + graph.type(space.c).to_string();
          });
  const Value decay = mul(graph, space.dt, space.a, source);
  const Value scanned = linear_attention(
      graph, {heads_first(space.c), heads_first(space.b), heads_first(x), values_first(decay), values_first(space.dt)},
      1.0, false, source);
  // A convolution of one token: as low as the scan's result where x is low.
  const Shape shape = graph.type(x).shape;
  const Value of_heads = reshape(graph, space.d, {shape.dim(2), Dim(1)});
  const Value factors =
      reshape(graph, broadcast(graph, of_heads, {shape.dim(2), shape.dim(3)}), Shape{shape[2] * shape[3], 1});
  const Value rows = reshape(graph, x, {shape.dim(0), shape.dim(1), Dim(shape[2] * shape[3])});
  const Value skipped = reshape(graph, causal_convolution(graph, rows, factors, false, source), shape);
  return add(graph, heads_first(scanned), skipped, source);
}

}  // namespace ridgepoint
