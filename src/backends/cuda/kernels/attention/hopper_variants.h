// The kernels of attention for Hopper, as variants.h has those of every GPU.
#pragma once

#include "backends/cuda/kernels/attention/variants.h"

namespace ridgepoint::cuda {

// What Hopper's kernels make of scores. Each is compiled apart, so that plain scores cost neither a register nor an
// instruction for the others; those with a soft cap take any window.
enum class HopperScores { plain, window, soft_cap };
constexpr bool has_window(HopperScores scores) { return scores != HopperScores::plain; }
constexpr bool has_soft_cap(HopperScores scores) { return scores == HopperScores::soft_cap; }

// Tilings of Hopper's forward kernels (attention_forward_wgmma.cu): warpgroups of 64 queries, and one that loads.
struct HopperForwardTiling {
  int width = 0;
  int rows = 0;  // queries of a block
  int keys = 0;  // of a step
  HopperScores scores = HopperScores::plain;

  static constexpr int kStages = 2;  // of k, and of v
  constexpr int groups() const { return rows / 64; }
  constexpr int threads() const { return 128 * (groups() + 1); }
  // A tile is in panels of 64 columns, each row of a panel 128 bytes.
  constexpr int panels() const { return (width + 63) / 64; }
  constexpr int query_bytes() const { return rows * panels() * 128; }
  constexpr int key_bytes() const { return keys * panels() * 128; }
  // q, and the stages of k and v; tiles begin at multiples of 1,024 bytes.
  constexpr int forward_shared_bytes() const { return 1024 + query_bytes() + 2 * kStages * key_bytes(); }
};

// Tilings of Hopper's backward kernels (attention_backward_wgmma.cu): two warpgroups of 64 keys, and one that loads.
struct HopperBackwardTiling {
  static constexpr int kStages = 2;
  static constexpr int kGroups = 2;
  static constexpr int kKeys = 64 * kGroups;

  int width = 0;
  int rows = 0;  // queries of a step
  HopperScores scores = HopperScores::plain;
  int keys = kKeys;
  constexpr int threads() const { return 128 * (kGroups + 1); }
  constexpr int panels() const { return (width + 63) / 64; }
  constexpr int padded_width() const { return 64 * panels(); }
  constexpr int query_bytes() const { return rows * panels() * 128; }
  constexpr int key_bytes() const { return kKeys * panels() * 128; }
  constexpr int score_bytes() const { return kKeys * rows * 2; }
  static constexpr int kStateBytes = 3072;  // barriers and scalars of queries; a multiple of 1,024
  // k and v; the stages of q, of the gradient of o and of the gradient of scores.
  constexpr int backward_shared_bytes() const {
    return kStateBytes + 2 * key_bytes() + kStages * (2 * query_bytes() + score_bytes());
  }
};

inline constexpr AttentionVariant<HopperForwardTiling> kHopperForwardVariants[] = {
    {AttentionElement::bf16, {64, 192, 128}, "attention_forward_hopper_bf16_64"},
    {AttentionElement::bf16, {96, 128, 128}, "attention_forward_hopper_bf16_96"},
    {AttentionElement::bf16, {128, 128, 128}, "attention_forward_hopper_bf16_128"},
    {AttentionElement::bf16, {256, 128, 80}, "attention_forward_hopper_bf16_256"},
    {AttentionElement::fp16, {64, 192, 128}, "attention_forward_hopper_fp16_64"},
    {AttentionElement::fp16, {96, 128, 128}, "attention_forward_hopper_fp16_96"},
    {AttentionElement::fp16, {128, 128, 128}, "attention_forward_hopper_fp16_128"},
    {AttentionElement::fp16, {256, 128, 80}, "attention_forward_hopper_fp16_256"},
    {AttentionElement::bf16, {64, 192, 128, HopperScores::window}, "attention_forward_hopper_window_bf16_64"},
    {AttentionElement::bf16, {96, 128, 128, HopperScores::window}, "attention_forward_hopper_window_bf16_96"},
    {AttentionElement::bf16, {128, 128, 128, HopperScores::window}, "attention_forward_hopper_window_bf16_128"},
    {AttentionElement::bf16, {256, 128, 80, HopperScores::window}, "attention_forward_hopper_window_bf16_256"},
    {AttentionElement::fp16, {64, 192, 128, HopperScores::window}, "attention_forward_hopper_window_fp16_64"},
    {AttentionElement::fp16, {96, 128, 128, HopperScores::window}, "attention_forward_hopper_window_fp16_96"},
    {AttentionElement::fp16, {128, 128, 128, HopperScores::window}, "attention_forward_hopper_window_fp16_128"},
    {AttentionElement::fp16, {256, 128, 80, HopperScores::window}, "attention_forward_hopper_window_fp16_256"},
    {AttentionElement::bf16, {64, 128, 128, HopperScores::soft_cap}, "attention_forward_hopper_soft_cap_bf16_64"},
    {AttentionElement::bf16, {96, 128, 128, HopperScores::soft_cap}, "attention_forward_hopper_soft_cap_bf16_96"},
    {AttentionElement::bf16, {128, 128, 128, HopperScores::soft_cap}, "attention_forward_hopper_soft_cap_bf16_128"},
    {AttentionElement::bf16, {256, 128, 64, HopperScores::soft_cap}, "attention_forward_hopper_soft_cap_bf16_256"},
    {AttentionElement::fp16, {64, 128, 128, HopperScores::soft_cap}, "attention_forward_hopper_soft_cap_fp16_64"},
    {AttentionElement::fp16, {96, 128, 128, HopperScores::soft_cap}, "attention_forward_hopper_soft_cap_fp16_96"},
    {AttentionElement::fp16, {128, 128, 128, HopperScores::soft_cap}, "attention_forward_hopper_soft_cap_fp16_128"},
    {AttentionElement::fp16, {256, 128, 64, HopperScores::soft_cap}, "attention_forward_hopper_soft_cap_fp16_256"},
};

inline constexpr AttentionVariant<HopperBackwardTiling> kHopperBackwardVariants[] = {
    {AttentionElement::bf16,
     {64, 128},
     "attention_backward_hopper_bf16_64",
     "attention_backward_hopper_prepare_bf16",
     "attention_backward_hopper_finish_bf16_64"},
    {AttentionElement::bf16,
     {96, 64},
     "attention_backward_hopper_bf16_96",
     "attention_backward_hopper_prepare_bf16",
     "attention_backward_hopper_finish_bf16_96"},
    {AttentionElement::bf16,
     {128, 64},
     "attention_backward_hopper_bf16_128",
     "attention_backward_hopper_prepare_bf16",
     "attention_backward_hopper_finish_bf16_128"},
    {AttentionElement::fp16,
     {64, 128},
     "attention_backward_hopper_fp16_64",
     "attention_backward_hopper_prepare_fp16",
     "attention_backward_hopper_finish_fp16_64"},
    {AttentionElement::fp16,
     {96, 64},
     "attention_backward_hopper_fp16_96",
     "attention_backward_hopper_prepare_fp16",
     "attention_backward_hopper_finish_fp16_96"},
    {AttentionElement::fp16,
     {128, 64},
     "attention_backward_hopper_fp16_128",
     "attention_backward_hopper_prepare_fp16",
     "attention_backward_hopper_finish_fp16_128"},
    {AttentionElement::bf16,
     {64, 128, HopperScores::window},
     "attention_backward_hopper_window_bf16_64",
     "attention_backward_hopper_prepare_bf16",
     "attention_backward_hopper_finish_bf16_64"},
    {AttentionElement::bf16,
     {96, 64, HopperScores::window},
     "attention_backward_hopper_window_bf16_96",
     "attention_backward_hopper_prepare_bf16",
     "attention_backward_hopper_finish_bf16_96"},
    {AttentionElement::bf16,
     {128, 64, HopperScores::window},
     "attention_backward_hopper_window_bf16_128",
     "attention_backward_hopper_prepare_bf16",
     "attention_backward_hopper_finish_bf16_128"},
    {AttentionElement::fp16,
     {64, 128, HopperScores::window},
     "attention_backward_hopper_window_fp16_64",
     "attention_backward_hopper_prepare_fp16",
     "attention_backward_hopper_finish_fp16_64"},
    {AttentionElement::fp16,
     {96, 64, HopperScores::window},
     "attention_backward_hopper_window_fp16_96",
     "attention_backward_hopper_prepare_fp16",
     "attention_backward_hopper_finish_fp16_96"},
    {AttentionElement::fp16,
     {128, 64, HopperScores::window},
     "attention_backward_hopper_window_fp16_128",
     "attention_backward_hopper_prepare_fp16",
     "attention_backward_hopper_finish_fp16_128"},
    {AttentionElement::bf16,
     {64, 128, HopperScores::soft_cap},
     "attention_backward_hopper_soft_cap_bf16_64",
     "attention_backward_hopper_prepare_bf16",
     "attention_backward_hopper_finish_bf16_64"},
    {AttentionElement::bf16,
     {96, 64, HopperScores::soft_cap},
     "attention_backward_hopper_soft_cap_bf16_96",
     "attention_backward_hopper_prepare_bf16",
     "attention_backward_hopper_finish_bf16_96"},
    {AttentionElement::bf16,
     {128, 64, HopperScores::soft_cap},
     "attention_backward_hopper_soft_cap_bf16_128",
     "attention_backward_hopper_prepare_bf16",
     "attention_backward_hopper_finish_bf16_128"},
    {AttentionElement::fp16,
     {64, 128, HopperScores::soft_cap},
     "attention_backward_hopper_soft_cap_fp16_64",
     "attention_backward_hopper_prepare_fp16",
     "attention_backward_hopper_finish_fp16_64"},
    {AttentionElement::fp16,
     {96, 64, HopperScores::soft_cap},
     "attention_backward_hopper_soft_cap_fp16_96",
     "attention_backward_hopper_prepare_fp16",
     "attention_backward_hopper_finish_fp16_96"},
    {AttentionElement::fp16,
     {128, 64, HopperScores::soft_cap},
     "attention_backward_hopper_soft_cap_fp16_128",
     "attention_backward_hopper_prepare_fp16",
     "attention_backward_hopper_finish_fp16_128"},
};

}  // namespace ridgepoint::cuda
