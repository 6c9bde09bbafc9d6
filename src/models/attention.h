// Attention variants as graph builders: the same function, different kernels and different tensors kept for backward.
#pragma once

#include <optional>

#include "ridgepoint/attention_variant.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

class Device;

// Tiled attention that the device has no kernel for runs as its decomposition, which keeps what `recompute` keeps. That
// variant where this befalls a node of the graph, with a warning once for each device and operand; empty where every
// such node has its kernel.
std::optional<AttentionVariant> attention_fallback(const Graph& graph, const Device& device);

// softmax(q k^T / sqrt(D)) v for q [...,S,D], k and v [...,K,D] -> [...,S,D]; causal: each query sees the keys up to
// its own position alone (S = K).
Value build_attention(Graph& graph, AttentionVariant variant, Value q, Value k, Value v, bool causal);

}  // namespace ridgepoint
