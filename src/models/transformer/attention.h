// Builds the graph of each attention variant. All compute the same function, with different kernels and different
// tensors saved for backward.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ridgepoint/core/precision.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/models/attention_variant.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/ops/compile.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {

class Device;

// Flash attention without a kernel on the device runs as its decomposition, which saves what `recompute` saves. Returns
// that variant if a node of the graph has no kernel, and warns once for each device and operand type; empty if every
// attention node has a kernel.
std::optional<AttentionVariant> attention_fallback(const Graph& graph, const Device& device);

// softmax(scores) v for q [...,S,D], k and v [...,K,D] -> [...,S,D], as the op attention() computes it: with its forms
// of scores, and heads that share keys and values. `sinks` [H], if there are any, are scores of no value beside those
// of the keys: they take their part of the softmax. `bias` [H,K], if there is any, is added to the scores of each key,
// but not by flash and recompute: they are one op, which knows none (with_bias_columns() is for it). `kept`
// [...,H or N or 1,S,K], if there is any, is 0 at further keys that a query does not attend to, and 1 at others: flash
// and recompute know none.
Value build_attention(Graph& graph, AttentionVariant variant, Value q, Value k, Value v, const AttentionForm& form,
                      Value sinks = {}, Value bias = {}, Value kept = {});

// Queries and keys [B,S,H,d] with columns more whose products are the terms of a linear bias [S,H] of each key, for a
// kernel that knows no bias: `scale` times the product of a row of q and one of k has the term to 24 bits, in low
// precision, too.
struct BiasedHeads {
  Value q, k;
};
inline constexpr std::int64_t kBiasColumns = 8;  // kernels take head sizes that are multiples of 8
BiasedHeads with_bias_columns(Graph& graph, Value q, Value k, Value bias, double scale);

// One call of attention, forward alone or with its backward: the workload that `ridgepoint attention` measures.
struct AttentionProblem {
  std::int64_t batch = 8;
  std::int64_t heads = 1;
  std::int64_t d_model = 64;  // all heads together
  std::int64_t queries = 256;
  std::int64_t keys = 256;
  std::int64_t kv_heads = 0;  // heads of keys and values, which divide the heads; 0: as many as heads
  bool causal = false;
  std::int64_t window = 0;  // the last keys that a query attends to, itself included; 0: all before it
  double soft_cap = 0;      // of the scores; 0: none
  AttentionVariant variant = AttentionVariant::composite;
  Precision precision = Precision::fp32;
  std::string model = {};  // whose attention it is; empty: sizes by themselves

  std::int64_t head_size() const { return d_model / heads; }
  std::int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  // Whether the window hides a key from a query.
  bool has_window() const { return window > 0 && window < keys; }
};

// Throws Error (usage) for a size that is not positive, heads that do not divide d_model or that the heads of keys do
// not divide, a causal mask with unequal numbers of queries and keys, a window without a causal mask, a negative window
// or cap, and sizes that overflow.
void validate(const AttentionProblem& problem);

// 4 B H S K D for S queries, K keys and head size D (two products of 2 B H S K D), and half of it if causal, for every
// variant: the convention of the FlashAttention papers. With a window of W keys the W S - W (W - 1) / 2 pairs of
// queries and keys count instead of S K. Backward counts as 2.5 times forward.
double forward_flops(const AttentionProblem& problem);
double backward_flops(const AttentionProblem& problem);

// The forward graph: inputs "q" [B,H,S,D], "k" and "v" [B,N,K,D] in matmul_dtype(precision), output "o" [B,H,S,D]. Mode
// backward adds the input "grad.o" with o's type, and the outputs "grad.q", "grad.k" and "grad.v".
Graph build_attention_problem(const AttentionProblem& problem);
// The log-sum-exp of each row of scores, [B,H,S], for the inputs of such a graph. Flash attention computes both in one
// node; another variant has temporaries of size S x S, so this has them, too.
Value build_log_sum_exp(Graph& graph, const AttentionProblem& problem, Value q, Value k, Value v);

CompileOptions compile_options(const AttentionProblem& problem, Mode mode);

class AttentionCall final : public Workload {
 public:
  // Throws Error (usage) as validate() does.
  explicit AttentionCall(AttentionProblem problem);

  WorkloadDescription describe() const override;
  Graph build(const StopPoint& = {}) const override { return build_attention_problem(problem_); }
  std::string_view unit() const override { return "calls"; }
  // By the convention of forward_flops() and backward_flops().
  using Workload::flops;
  std::int64_t flops(const CompileOptions& options) const override;

 private:
  AttentionProblem problem_;
};

}  // namespace ridgepoint
