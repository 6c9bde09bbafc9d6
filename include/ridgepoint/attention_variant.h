// The ways to compute attention, by the names a person asks for: the same function, different kernels, different
// tensors kept for backward.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ridgepoint {

// What each keeps of size S x S between forward and backward (beside q, k and v):
enum class AttentionVariant : std::uint8_t {
  composite,  // plain ops, each with its own derivative: exponentials and weights
  softmax,    // the softmax op, one kernel where the device has one: weights
  weights,    // plain ops forward, the softmax op's derivative: weights
  recompute,  // plain ops whose scores are computed again for backward: nothing; only the rows' log-sum-exp
  flash,      // the attention op as one tiled kernel (Dao et al. 2022): the same; no square even for a moment
};

inline constexpr std::array kAllAttentionVariants = {AttentionVariant::composite, AttentionVariant::softmax,
                                                     AttentionVariant::weights, AttentionVariant::recompute,
                                                     AttentionVariant::flash};

// composite softmax weights recompute flash
std::string_view name(AttentionVariant variant);
// Throws Error (usage) naming the nearest variant.
AttentionVariant attention_variant_from_name(std::string_view text);

}  // namespace ridgepoint
