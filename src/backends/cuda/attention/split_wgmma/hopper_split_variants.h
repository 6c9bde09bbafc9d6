// The kernels of fp32 attention for Hopper, as variants.h has those of every GPU. Those of tf32 are the same with one
// part of an operand instead of two.
#pragma once

#include "backends/cuda/attention/common/variants.h"

namespace ridgepoint::cuda {

// Tilings of attention_split_forward_wgmma.cu: two warpgroups of 64 queries, and one that loads.
struct HopperSplitForwardTiling {
  int width = 0;
  int rows = 0;   // queries of a block
  int keys = 0;   // of a step
  int parts = 2;  // 1 for tf32

  constexpr int stages() const { return width > 128 ? 1 : 2; }  // of k, and of v
  constexpr int groups() const { return rows / 64; }
  constexpr int threads() const { return 128 * (groups() + 1); }
  constexpr int query_bytes() const { return rows * width * 2 * parts; }
  constexpr int key_bytes() const { return keys * width * 2 * parts; }
  // q, and the stages of k and v; tiles begin at multiples of 1,024 bytes.
  constexpr int forward_shared_bytes() const { return 1024 + query_bytes() + 2 * stages() * key_bytes(); }
};

// Tilings of attention_split_backward_wgmma.cu: two warpgroups of 64 keys, and one that loads. For wider heads
// (attention_split_wide_backward_wgmma.cu) both have the same 64 keys and half of the columns each.
struct HopperSplitBackwardTiling {
  static constexpr int kGroups = 2;
  static constexpr int kKeys = 64 * kGroups;

  int width = 0;
  int rows = 0;   // queries of a step
  int parts = 2;  // 1 for tf32
  int keys = kKeys;

  constexpr int threads() const { return 128 * (kGroups + 1); }
  constexpr int query_bytes() const { return rows * width * 2 * parts; }
  constexpr int key_bytes() const { return keys * width * 2 * parts; }
  // Of the gradient of scores; of wide heads also of the weights, both in lines of 128 bytes for each key.
  constexpr int score_bytes() const { return (width > 128 ? 2 * keys * 64 : keys * rows) * 2 * parts; }
  static constexpr int kStateBytes = 3072;  // barriers and scalars of queries; a multiple of 1,024
  // k and v; q, the gradient of o and the gradient of scores.
  constexpr int backward_shared_bytes() const {
    return kStateBytes + 2 * key_bytes() + 2 * query_bytes() + score_bytes();
  }
};

inline constexpr double kSplitOverhead = 260;

inline constexpr AttentionVariant<HopperSplitForwardTiling> kHopperSplitForwardVariants[] = {
    {AttentionElement::fp32,
     {64, 128, 128, 1},
     {0.31, 8e-6, kSplitOverhead},
     "attention_forward_hopper_tf32_64",
     "attention_forward_hopper_prepare_tf32_64"},
    {AttentionElement::fp32,
     {128, 128, 64, 1},
     {0.40, 8e-6, kSplitOverhead},
     "attention_forward_hopper_tf32_128",
     "attention_forward_hopper_prepare_tf32_128"},
    {AttentionElement::fp32,
     {256, 128, 32, 1},
     {0.40, 8e-6, kSplitOverhead},
     "attention_forward_hopper_tf32_256",
     "attention_forward_hopper_prepare_tf32_256"},
    {AttentionElement::fp32,
     {64, 128, 128},
     {0.19, 8e-6, kSplitOverhead},
     "attention_forward_hopper_fp32_64",
     "attention_forward_hopper_prepare_fp32_64"},
    {AttentionElement::fp32,
     {128, 128, 64},
     {0.192, 8e-6, kSplitOverhead},
     "attention_forward_hopper_fp32_128",
     "attention_forward_hopper_prepare_fp32_128"},
    {AttentionElement::fp32,
     {256, 128, 32},
     {0.177, 8e-6, kSplitOverhead},
     "attention_forward_hopper_fp32_256",
     "attention_forward_hopper_prepare_fp32_256"},
};

inline constexpr AttentionVariant<HopperSplitBackwardTiling> kHopperSplitBackwardVariants[] = {
    {AttentionElement::fp32,
     {64, 128, 1},
     {0.36, 14e-6, kSplitOverhead},
     "attention_backward_hopper_tf32_64",
     "attention_backward_hopper_prepare_tf32_64",
     "attention_backward_hopper_finish_fp32_64"},
    {AttentionElement::fp32,
     {128, 64, 1},
     {0.433, 14e-6, kSplitOverhead},
     "attention_backward_hopper_tf32_128",
     "attention_backward_hopper_prepare_tf32_128",
     "attention_backward_hopper_finish_fp32_128"},
    {AttentionElement::fp32,
     {256, 32, 1, 64},
     {0.30, 14e-6, kSplitOverhead},
     "attention_backward_hopper_tf32_256",
     "attention_backward_hopper_prepare_tf32_256",
     "attention_backward_hopper_finish_fp32_256"},
    {AttentionElement::fp32,
     {64, 128},
     {0.197, 14e-6, kSplitOverhead},
     "attention_backward_hopper_fp32_64",
     "attention_backward_hopper_prepare_fp32_64",
     "attention_backward_hopper_finish_fp32_64"},
    {AttentionElement::fp32,
     {128, 64},
     {0.205, 14e-6, kSplitOverhead},
     "attention_backward_hopper_fp32_128",
     "attention_backward_hopper_prepare_fp32_128",
     "attention_backward_hopper_finish_fp32_128"},
    {AttentionElement::fp32,
     {256, 32, 2, 64},
     {0.151, 14e-6, kSplitOverhead},
     "attention_backward_hopper_fp32_256",
     "attention_backward_hopper_prepare_fp32_256",
     "attention_backward_hopper_finish_fp32_256"},
};

}  // namespace ridgepoint::cuda
