// The implementations of attention that a user can choose. All compute the same function; they differ in their kernels
// and in the tensors that they save for backward.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ridgepoint {

// Tensors of size S x S that each saves for backward, in addition to q, k and v:
enum class AttentionVariant : std::uint8_t {
  naive,      // primitive ops, nothing detached, as a user writes it: saves scores, exponentials and weights
  composite,  // the same, but no gradient flows through the row maximum: saves the exponentials and the weights
  softmax,    // the softmax op, one kernel where the device has one: saves the weights
  weights,    // primitive ops forward, the derivative of the softmax op: saves the weights
  recompute,  // backward computes the scores again: saves only the log-sum-exp of each row
  flash,      // one tiled kernel (Dao et al. 2022): saves the log-sum-exp, and never allocates an S x S tensor
};

inline constexpr std::array kAllAttentionVariants = {AttentionVariant::naive,     AttentionVariant::composite,
                                                     AttentionVariant::softmax,   AttentionVariant::weights,
                                                     AttentionVariant::recompute, AttentionVariant::flash};

// naive composite softmax weights recompute flash
std::string_view name(AttentionVariant variant);
// Throws Error (usage) naming the nearest variant.
AttentionVariant attention_variant_from_name(std::string_view text);

}  // namespace ridgepoint
