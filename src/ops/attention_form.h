// The attributes of attention and attention_backward (ops/rules/attention.cpp).
#pragma once

#include <string_view>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {

Attributes attributes_of(const AttentionForm& form);
AttentionForm attention_form(const Attributes& attributes);

// Where it is true, attention_backward gives the gradients of k and v their own shapes, [...,N,K,D], summed over the
// heads of q that share them. Otherwise there is one for each head of q, [...,H,K,D]. The pass sum_key_gradients sets
// it.
inline constexpr std::string_view kSumsKeyGradients = "sums_key_gradients";
inline bool sums_key_gradients(const Node& node) { return node.attributes.get_or(kSumsKeyGradients, false); }

// Where attention_backward has 8 operands, the last two are the cosines and sines [S,R/2] of rotary embedding: q and k
// are rotations of the first R elements of each row of two tensors, by the angles of the row's position, and the
// gradients are those of these tensors. The pass rotate_in_attention adds the tables.
inline constexpr std::size_t kCosinesOfAttention = 6;
inline constexpr std::size_t kSinesOfAttention = 7;
inline bool has_rotary_tables(const Node& node) {
  return node.op == Op::attention_backward && node.inputs.size() > kCosinesOfAttention;
}

// Where attention has 4 operands, the last one is a sink for each head of q [H]: a score of no value beside those of
// the keys, which takes its part of the softmax and of the log-sum-exp. No kernel has them: the pass split_sinks
// divides the node into attention without them and what they change.
inline bool has_sinks(const Node& node) { return node.op == Op::attention && node.inputs.size() > 3; }
// The sinks as a column [H,1], or, of heads in groups that share keys, as [N,G,1].
Value sink_column(Graph& graph, Value sinks, std::int64_t group = 1);

// How many heads of q read one head of k, for q [...,H,S,D] and k [...,N,K,D] with N a divisor of H.
inline std::int64_t heads_per_key_head(const Shape& q, const Shape& k) {
  return q.rank() < 3 || k[-3] == 0 ? 1 : q[-3] / k[-3];
}

// Views of operands of attention in which each head of the keys stands beside the heads of the queries that read it.
// They are the operands themselves where each head of the queries has keys of its own (`group` 1).
class KeyHeads {
 public:
  KeyHeads(Graph& graph, std::int64_t group) : graph_(graph), group_(group) {}

  std::int64_t group() const { return group_; }

  // x [...,H,...] with `after` dimensions after the heads of the queries -> [...,N,G,...].
  Value grouped(Value x, int after = 2) const;
  // x [...,N,K,D] -> [...,N,G,K,D], repeated.
  Value repeated(Value x) const;

 private:
  Graph& graph_;
  std::int64_t group_;
};

}  // namespace ridgepoint
