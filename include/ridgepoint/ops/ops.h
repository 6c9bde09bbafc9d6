// Builders: each appends one node, infers its type and returns its value. All throw Error naming the op, the types of
// the operands and the broken rule. Elementwise operands broadcast by numpy's rules and must share a dtype.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ridgepoint/core/base_weights.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// The file and line that built a node; by default the caller's. It replaces std::source_location, which clang before 16
// lacks.
class Source {
 public:
  static constexpr Source current(const char* file_name = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return Source(file_name, line);
  }
  constexpr const char* file_name() const { return file_name_; }
  constexpr unsigned line() const { return line_; }

 private:
  constexpr Source(const char* file_name, unsigned line) : file_name_(file_name), line_(line) {}
  const char* file_name_;
  unsigned line_;
};

// Appends a node of any op and infers its types by the op's shape rule. All builders below call it.
NodeId make_node(Graph& graph, Op op, std::vector<Value> inputs, Attributes attributes = {},
                 const Source& source = Source::current());
// The first result of such a node.
Value make_value(Graph& graph, Op op, std::vector<Value> inputs, Attributes attributes = {},
                 const Source& source = Source::current());

// An input of the graph. Names are unique within a graph.
Value input(Graph& graph, std::string name, TensorType type, Role role, const Source& source = Source::current());
// A scalar constant (rank 0). Kernels take it as an immediate operand, without memory.
Value constant(Graph& graph, double value, DType dtype, const Source& source = Source::current());
// A constant of an integer dtype, exact where a double is not.
Value integer_constant(Graph& graph, std::int64_t value, DType dtype, const Source& source = Source::current());

// Views.
Value reshape(Graph& graph, Value x, Shape shape, const Source& source = Source::current());  // same element count
Value transpose(Graph& graph, Value x, std::vector<std::int64_t> permutation, const Source& source = Source::current());
Value flip(Graph& graph, Value x, int axis, const Source& source = Source::current());
Value broadcast(Graph& graph, Value x, Shape shape, const Source& source = Source::current());
// Consecutive parts of x along `axis`, of these sizes, whose sum is that of the axis.
std::vector<Value> split(Graph& graph, Value x, int axis, std::vector<std::int64_t> sizes,
                         const Source& source = Source::current());

// The operands side by side along `axis`; their other dimensions are equal. The inverse of split().
Value concat(Graph& graph, std::vector<Value> operands, int axis, const Source& source = Source::current());

// Elementwise.
Value copy(Graph& graph, Value x, const Source& source = Source::current());  // dense copy
Value cast(Graph& graph, Value x, DType dtype, const Source& source = Source::current());
Value detach(Graph& graph, Value x, const Source& source = Source::current());  // identity with zero derivative
// The bf16 number nearest to an fp32 number, of two the one further from zero; and the fp32 number, to the bit, from
// that and its cast to low_half.
Value round_away(Graph& graph, Value x, const Source& source = Source::current());
Value join_halves(Graph& graph, Value rounded, Value low, const Source& source = Source::current());
Value neg(Graph& graph, Value x, const Source& source = Source::current());
Value exp(Graph& graph, Value x, const Source& source = Source::current());
Value expm1(Graph& graph, Value x, const Source& source = Source::current());
Value log(Graph& graph, Value x, const Source& source = Source::current());
Value sqrt(Graph& graph, Value x, const Source& source = Source::current());
Value rsqrt(Graph& graph, Value x, const Source& source = Source::current());
Value sigmoid(Graph& graph, Value x, const Source& source = Source::current());
Value tanh(Graph& graph, Value x, const Source& source = Source::current());
Value erf(Graph& graph, Value x, const Source& source = Source::current());
Value add(Graph& graph, Value a, Value b, const Source& source = Source::current());
Value sub(Graph& graph, Value a, Value b, const Source& source = Source::current());
Value mul(Graph& graph, Value a, Value b, const Source& source = Source::current());
Value div(Graph& graph, Value a, Value b, const Source& source = Source::current());
Value maximum(Graph& graph, Value a, Value b, const Source& source = Source::current());
Value minimum(Graph& graph, Value a, Value b, const Source& source = Source::current());
Value equal(Graph& graph, Value a, Value b, const Source& source = Source::current());       // bool
Value less(Graph& graph, Value a, Value b, const Source& source = Source::current());        // bool
Value less_equal(Graph& graph, Value a, Value b, const Source& source = Source::current());  // bool
Value where(Graph& graph, Value condition, Value a, Value b, const Source& source = Source::current());
// A tensor of the given shape whose elements are their index along `axis`.
Value iota(Graph& graph, Shape shape, int axis, DType dtype, const Source& source = Source::current());
// x * value and x + value with a scalar constant of x's dtype.
Value scale(Graph& graph, Value x, double factor, const Source& source = Source::current());
Value shift(Graph& graph, Value x, double term, const Source& source = Source::current());

// Reductions over `axes`; keep_dims leaves size-1 dimensions.
Value reduce_sum(Graph& graph, Value x, std::vector<std::int64_t> axes, bool keep_dims = false,
                 const Source& source = Source::current());
Value reduce_max(Graph& graph, Value x, std::vector<std::int64_t> axes, bool keep_dims = false,
                 const Source& source = Source::current());
// Sums x over the dimensions that a broadcast from `shape` to x's shape added or enlarged.
Value sum_to(Graph& graph, Value x, const Shape& shape, const Source& source = Source::current());

// a [...,M,K] x b [...,K,N] -> [...,M,N]; leading dimensions equal. Accumulates in fp32 (fp64 for fp64).
Value matmul(Graph& graph, Value a, Value b, const Source& source = Source::current());
// a b + c, where c and the result [...,M,N] have the dtype of a and b or its accumulator: the sum is rounded once. The
// result may overwrite c.
Value matmul_add(Graph& graph, Value a, Value b, Value c, const Source& source = Source::current());

// A matrix x [M,N] as codes of a floating-point dtype of 8 bits (e4m3 or e5m2) and one scale, fp32: x is about
// codes * scale, and the largest magnitude of x has the largest code. The codes lie as [M,N] in `rows`, as [N,M] in
// `columns`; one that is not asked for is invalid.
struct QuantiseLayout {
  bool rows = true;
  bool columns = false;
};
struct Quantised {
  Value rows, columns, scale;
};
Quantised quantise(Graph& graph, Value x, DType codes, const QuantiseLayout& layout,
                   const Source& source = Source::current());
// The same with one scale a row [...,1], the least power of two by which the row has no number beyond the largest code.
struct QuantisedRows {
  Value codes, scales;
};
QuantisedRows quantise_rows(Graph& graph, Value x, DType codes, const Source& source = Source::current());
// Codes of rows [M,N] and their scales as codes [N,M], in `columns`, with one scale, the largest of those. A scalar is
// the scale of all rows.
Quantised transpose_codes(Graph& graph, Value codes, Value scales, const Source& source = Source::current());
// Codes [M,N] times their scale, an fp32 scalar, in `dtype` (bf16, fp16 or fp32).
Value widen_codes(Graph& graph, Value codes, Value scale, DType dtype, const Source& source = Source::current());
// a b^T of codes a [M,K] and b [N,K], times both scales (fp32, a scalar or [M,1] and [N,1]), in `result` (bf16, fp16 or
// fp32), plus the addend, if any, which has the type of the result. Sums are fp32.
Value scaled_matmul(Graph& graph, Value a, Value a_scale, Value b, Value b_scale, DType result, Value addend = {},
                    const Source& source = Source::current());

// Weights [rows of each, columns] that lie packed one after another as `format` (nf4 or int8), in `dtype` (bf16, fp16
// or fp32): packed [bytes] -> [sum of rows, columns].
Value dequantise(Graph& graph, Value packed, BaseWeights format, std::vector<std::int64_t> rows, std::int64_t columns,
                 DType dtype, const Source& source = Source::current());

// weight [V,D], indices int64 [...] -> [...,D]. An index outside [0,V) is an error when the data is set.
Value embedding(Graph& graph, Value weight, Value indices, const Source& source = Source::current());
// Sums gradient rows [...,D] by index into a dense [rows,D].
Value embedding_backward(Graph& graph, Value gradient, Value indices, std::int64_t rows,
                         const Source& source = Source::current());
// The same sums added to addend [rows,D] of the same dtype, which the result may overwrite.
Value embedding_backward_add(Graph& graph, Value gradient, Value indices, Value addend,
                             const Source& source = Source::current());

// Mixture of experts. The k largest of each row of x [...,E], largest first, equal ones by index: {values [...,k],
// indices int64 [...,k]}. A NaN is larger than every number.
std::pair<Value, Value> top_k(Graph& graph, Value x, std::int64_t k, const Source& source = Source::current());
// int64 results for the choices [T,k] of T tokens (int64, in [0,experts)): `order` [T k] has the number of each choice,
// sorted by expert and, for one expert, by number; `rows` [T k] has the token of each, order / k; the choices of expert
// e are those from offsets[e] to offsets[e + 1], with `offsets` [experts + 1].
struct ExpertOrder {
  Value order, rows, offsets;
};
ExpertOrder expert_order(Graph& graph, Value choices, std::int64_t experts, const Source& source = Source::current());
// The rows of x [N,K] from offsets[e] to offsets[e + 1] times matrix e of `weights`: [E,K,M], or [E,M,K] if
// `transposed` -> [N,M]. Rows after the last offset are 0.
Value grouped_matmul(Graph& graph, Value x, Value weights, Value offsets, bool transposed,
                     const Source& source = Source::current());
// For each group of rows of a [N,P] and b [N,Q] the product of the transpose of the first with the second: [E,P,Q]. A
// group without rows has zeros.
Value grouped_matmul_weights(Graph& graph, Value a, Value b, Value offsets, const Source& source = Source::current());

// Attention with a state instead of scores (Yang et al. 2024, arXiv:2412.06464). For each head a matrix S [Dk,Dv],
// first 0, and for each token t, with P = exp(g_t) S_(t-1):
//   S_t = P + beta_t k_t (v_t - P^T k_t)^T,   o_t = scale S_t^T q_t
// q and k [...,N,S,Dk], v [...,H,S,Dv] -> [...,H,S,Dv]; the logarithms of decay g and beta [...,H,S] in fp32 for low v.
// Heads as for attention().
Value gated_delta_rule(Graph& graph, Value q, Value k, Value v, Value g, Value beta, double scale,
                       const Source& source = Source::current());
// Mamba-2's scan (Dao & Gu 2024, arXiv:2405.21060): the same without P^T k, with q = c, k = b, v = x, g = a dt, beta =
// dt and scale 1, plus d x. x [B,S,H,P], dt [B,S,H] after softplus, a and d [H], b and c [B,S,G,N] -> [B,S,H,P].
struct StateSpace {
  Value dt, a, b, c, d;
};
Value state_space_scan(Graph& graph, Value x, const StateSpace& space, const Source& source = Source::current());

// Composites.
Value relu(Graph& graph, Value x, const Source& source = Source::current());
Value silu(Graph& graph, Value x, const Source& source = Source::current());  // x * sigmoid(x)
// x Phi(x), Phi the distribution function of the normal distribution; `by_tanh`: the approximation
// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel 2016).
Value gelu(Graph& graph, Value x, bool by_tanh = false, const Source& source = Source::current());
Value softplus(Graph& graph, Value x, const Source& source = Source::current());  // log(1 + exp(x))
// A convolution of each channel along the sequence: x [...,S,C], weight [C,W] -> [...,S,C], token t from tokens
// t - W + 1 to t, where tokens before the first are 0: y_t = sum of weight[:,i] x_(t - W + 1 + i). `reversed`: from
// tokens t to t + W - 1, y_t = sum of weight[:,i] x_(t + W - 1 - i), which is also the derivative by x.
Value causal_convolution(Graph& graph, Value x, Value weight, bool reversed = false,
                         const Source& source = Source::current());
// cap * tanh(x / cap), for a positive cap.
Value soft_cap(Graph& graph, Value x, double cap, const Source& source = Source::current());
// x [...,S,K]: element (i,j) is x where i + K - S - window < j <= i + K - S, else `fill` (-inf for scores, 0 for their
// gradient). Window 0: without the lower bound.
Value causal_mask(Graph& graph, Value x, double fill, std::int64_t window = 0,
                  const Source& source = Source::current());
Value softmax(Graph& graph, Value x, const Source& source = Source::current());  // over the last axis
// x [...,D], weight [D] -> {y [...,D], 1/rms [...,1]}; y = x / sqrt(mean(x^2) + epsilon) * weight.
std::pair<Value, Value> rms_norm(Graph& graph, Value x, Value weight, double epsilon,
                                 const Source& source = Source::current());
// x [...,D], weight and bias [D] -> {y [...,D], mean [...,1], 1/deviation [...,1]};
// y = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * weight + bias.
std::array<Value, 3> layer_norm(Graph& graph, Value x, Value weight, Value bias, double epsilon,
                                const Source& source = Source::current());
// Rotary embedding on interleaved pairs: x [...,D], position along `axis`; cosines and sines [S,D/2], fp32 for a low x.
// `inverse` rotates by the negative angle, which is also the derivative.
Value rope(Graph& graph, Value x, Value cosines, Value sines, int axis, bool inverse = false,
           const Source& source = Source::current());
// Which scores attention has: cap tanh(scale q k^T / cap), of the keys that a query sees.
struct AttentionForm {
  double scale = 1;
  bool causal = false;      // query i sees keys 0 to i; there must be as many queries as keys
  std::int64_t window = 0;  // and of these the last `window` only; 0: all. Needs `causal`
  double soft_cap = 0;      // 0: no cap

  bool operator==(const AttentionForm&) const = default;
};
// q [...,S,D], k and v [...,K,D] -> {o [...,S,D], log-sum-exp of each row of scores [...,S]}, the latter in fp32 (fp64
// for fp64); o = softmax(scores) v. The last leading dimension is the heads: those of k and v must divide those of q,
// and head h of q reads head h / (heads of q / heads of k).
std::pair<Value, Value> attention(Graph& graph, Value q, Value k, Value v, const AttentionForm& form,
                                  const Source& source = Source::current());
// logits [T,V], targets int64 [T] -> {loss per row [T], log-sum-exp per row [T]}, in fp32 for low logits.
std::pair<Value, Value> cross_entropy(Graph& graph, Value logits, Value targets,
                                      const Source& source = Source::current());

// A scalar: 0 where every element of x is finite, else NaN.
Value nonfinite(Graph& graph, Value x, const Source& source = Source::current());
// A scalar: the sum of x^2 over all elements of all operands, which may be low. For bf16 and fp16 the scalar is fp32.
Value sum_of_squares(Graph& graph, std::span<const Value> operands, const Source& source = Source::current());

// Collectives over `ranks` processes that run the same graph, of any number of tensors. The sum over ranks, of the same
// type; it may overwrite the operand.
std::vector<Value> all_reduce(Graph& graph, std::vector<Value> values, std::int64_t ranks,
                              const Source& source = Source::current());
// This rank's part [elements / ranks] of the sum over ranks.
std::vector<Value> reduce_scatter(Graph& graph, std::vector<Value> values, std::int64_t ranks,
                                  const Source& source = Source::current());
// The tensors of all ranks one after another along the first dimension.
std::vector<Value> all_gather(Graph& graph, std::vector<Value> values, std::int64_t ranks,
                              const Source& source = Source::current());
// The same for parts of the elements of each tensor; the results have the types of the tensors and may overwrite them.
std::vector<Value> all_gather_into(Graph& graph, std::vector<Value> tensors, const std::vector<Value>& parts,
                                   std::int64_t ranks, const Source& source = Source::current());
// Those of rank `root`.
std::vector<Value> collective_broadcast(Graph& graph, std::vector<Value> values, std::int64_t ranks, std::int64_t root,
                                        const Source& source = Source::current());

// Tensors that lie in the memory of the host, in that of the device.
std::vector<Value> copy_from_host(Graph& graph, std::vector<Value> on_host, const Source& source = Source::current());
// The values, which lie in the memory of the device, in that of the host: over the inputs that they update, or in
// memory of their own.
std::vector<Value> copy_to_host(Graph& graph, std::vector<Value> values, const Source& source = Source::current());

}  // namespace ridgepoint
