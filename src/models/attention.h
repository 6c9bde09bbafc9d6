// Attention variants as graph builders: the same function, different kernels and different tensors kept for backward.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ridgepoint/graph.h"

namespace ridgepoint {

class Device;

// What each keeps of size S x S between forward and backward (beside q, k and v):
enum class AttentionVariant : std::uint8_t {
  composite,  // plain ops, each with its own derivative: exponentials and weights
  softmax,    // the softmax op, one kernel where the device has one: weights
  weights,    // plain ops forward, the softmax op's derivative: weights
  recompute,  // plain ops whose scores are computed again for backward: nothing; only the rows' log-sum-exp
  flash,      // the attention op as one tiled kernel (Dao et al. 2022): the same; no square even for a moment
};

std::span<const AttentionVariant> attention_variants();
std::string_view name(AttentionVariant variant);
// Throws Error (usage) naming the nearest variant.
AttentionVariant attention_variant_from_name(std::string_view text);

// Tiled attention that the device has no kernel for runs as its decomposition, which keeps what `recompute` keeps. The
// name of that variant where this befalls a node of the graph, with a warning once for each device and operand; empty
// where every such node has its kernel.
std::optional<std::string> attention_fallback(const Graph& graph, const Device& device);

// softmax(q k^T / sqrt(D)) v for q [...,S,D], k and v [...,K,D] -> [...,S,D]; causal: each query sees the keys up to
// its own position alone (S = K).
Value build_attention(Graph& graph, AttentionVariant variant, Value q, Value k, Value v, bool causal);

}  // namespace ridgepoint
