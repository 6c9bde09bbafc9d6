// Builds the graph of each attention variant. All compute the same function, with different kernels and different
// tensors saved for backward.
#pragma once

#include <optional>

#include "ridgepoint/attention_variant.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {

class Device;

// Flash attention without a kernel on the device runs as its decomposition, which saves what `recompute` saves. Returns
// that variant if a node of the graph has no kernel, and warns once for each device and operand type; empty if every
// attention node has a kernel.
std::optional<AttentionVariant> attention_fallback(const Graph& graph, const Device& device);

// softmax(scores) v for q [...,S,D], k and v [...,K,D] -> [...,S,D], as the op attention() computes it: with its forms
// of scores, and heads that share keys and values.
Value build_attention(Graph& graph, AttentionVariant variant, Value q, Value k, Value v, const AttentionForm& form);

}  // namespace ridgepoint
