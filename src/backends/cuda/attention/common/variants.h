// The kernels of attention and its backward, one row each. A .cu file makes a kernel of a row by its entry name, and
// attention.cpp offers the same rows to the host; a new kernel is a row here and a line in its .cu file. Host and
// device code both include this header, so it uses plain structs.
#pragma once

#include "runtime/device/kernel_rate.h"

namespace ridgepoint::cuda {

enum class AttentionElement { bf16, fp16, fp32 };

// Tilings for 16-bit operands with head sizes up to `width` (attention_forward.cu and attention_backward.cu). Rows in
// shared memory are padded to a power of two.
struct AttentionTiling {
  int width = 0;
  int rows = 0;  // queries of a block, or of a step in backward
  int keys = 0;  // keys of a step, or of a block in backward
  int warps = 0;
  int blocks = 1;        // on one multiprocessor
  int score_stages = 2;  // of the gradient of scores, in backward; 1 needs a second barrier in each step

  constexpr int threads() const { return 32 * warps; }
  constexpr int row_chunks() const { return width <= 64 ? 8 : width <= 128 ? 16 : 32; }  // of 16 bytes
  constexpr int row_bytes() const { return 16 * row_chunks(); }
  // q, and two stages of k and v.
  constexpr int forward_shared_bytes() const { return (rows + 2 * 2 * keys) * row_bytes(); }
  // k and v; two stages of q, of the gradient of o, and of a log-sum-exp and a product for each query; and the gradient
  // of scores.
  constexpr int backward_shared_bytes() const {
    return (2 * keys + 2 * 2 * rows) * row_bytes() + 2 * 2 * 4 * rows + score_stages * 2 * keys * rows;
  }
};

// Tilings for fp32 operands (attention_split_forward.cu and attention_split_backward.cu), whose tiles are split in
// shared memory into two tiles of fp16.
struct SplitAttentionTiling {
  int width = 0;
  int rows = 0;
  int keys = 0;
  int warps = 0;

  static constexpr int kElementBytes = 2 * 2;
  // Numbers of tile maxima: of k and v for four steps; in backward of three operands (padded to four) for eight steps,
  // and of k and v.
  static constexpr int kForwardScales = 4 * 2;
  static constexpr int kBackwardScales = 8 * 4 + 2;

  constexpr int threads() const { return 32 * warps; }
  // Two stages of split k and v, and the unsplit elements of two more.
  constexpr int forward_shared_bytes() const { return 2 * 2 * keys * width * (kElementBytes + 4) + kForwardScales * 4; }
  // The number of warps that share 16 keys.
  constexpr int splits() const { return 16 * warps / keys; }
  // Split k and v; two stages of split q and gradient of o, the unsplit elements of two more, a log-sum-exp and a
  // product for each query, and the gradient of scores; and the weights if warps share keys.
  constexpr int backward_shared_bytes() const {
    return 2 * keys * width * kElementBytes + 2 * rows * (2 * width * (kElementBytes + 4) + 2 * 4) +
           (2 + splits() - 1) * keys * rows * kElementBytes + kBackwardScales * 4;
  }
};

template <class Tiling>
struct AttentionVariant {
  AttentionElement element;
  Tiling tiling;
  AttentionRate rate;
  const char* entry;
  const char* prepare_entry = nullptr;  // backward only
  const char* finish_entry = nullptr;   // if the sums of dq are not dq itself
};

// Tiles of 64 queries or keys too are fitted as if they had 128.
inline constexpr double kPortableOverhead = 120;
inline constexpr AttentionRate kForwardRate{
    .share = 0.34, .fixed_seconds = 3e-6, .overhead = kPortableOverhead, .block = 128};
inline constexpr AttentionRate kBackwardRate{
    .share = 0.263, .fixed_seconds = 14e-6, .overhead = kPortableOverhead, .block = 128};

// Of each head size the rows with the larger tiles come first. Those after them are for cards with less shared memory
// for a block: `compact` for 163 KiB (compute capability 8.0), `narrow` for 99 KiB (8.6, 8.9 and 12.0).
inline constexpr AttentionVariant<AttentionTiling> kForwardVariants[] = {
    {AttentionElement::bf16, {64, 128, 64, 4, 2}, kForwardRate, "attention_forward_tiled_bf16_64"},
    {AttentionElement::bf16, {96, 128, 32, 4, 2}, kForwardRate, "attention_forward_tiled_bf16_96"},
    {AttentionElement::bf16, {128, 128, 32, 4, 2}, kForwardRate, "attention_forward_tiled_bf16_128"},
    {AttentionElement::bf16, {256, 64, 64, 4, 1}, kForwardRate, "attention_forward_tiled_bf16_256"},
    {AttentionElement::bf16, {256, 64, 32, 4, 1}, kForwardRate, "attention_forward_tiled_bf16_256_narrow"},
    {AttentionElement::fp16, {64, 128, 64, 4, 2}, kForwardRate, "attention_forward_tiled_fp16_64"},
    {AttentionElement::fp16, {96, 128, 32, 4, 2}, kForwardRate, "attention_forward_tiled_fp16_96"},
    {AttentionElement::fp16, {128, 128, 32, 4, 2}, kForwardRate, "attention_forward_tiled_fp16_128"},
    {AttentionElement::fp16, {256, 64, 64, 4, 1}, kForwardRate, "attention_forward_tiled_fp16_256"},
    {AttentionElement::fp16, {256, 64, 32, 4, 1}, kForwardRate, "attention_forward_tiled_fp16_256_narrow"},
};

inline constexpr AttentionVariant<AttentionTiling> kBackwardVariants[] = {
    {AttentionElement::bf16,
     {64, 64, 128, 8, 1},
     kBackwardRate,
     "attention_backward_tiled_bf16_64",
     "attention_backward_prepare_bf16",
     "attention_backward_finish_bf16_64"},
    {AttentionElement::bf16,
     {96, 64, 128, 8, 1},
     kBackwardRate,
     "attention_backward_tiled_bf16_96",
     "attention_backward_prepare_bf16",
     "attention_backward_finish_bf16_96"},
    {AttentionElement::bf16,
     {96, 32, 64, 4, 1},
     kBackwardRate,
     "attention_backward_tiled_bf16_96_narrow",
     "attention_backward_prepare_bf16",
     "attention_backward_finish_bf16_96_narrow"},
    {AttentionElement::bf16,
     {128, 64, 128, 8, 1},
     kBackwardRate,
     "attention_backward_tiled_bf16_128",
     "attention_backward_prepare_bf16",
     "attention_backward_finish_bf16_128"},
    {AttentionElement::bf16,
     {128, 32, 64, 4, 1},
     kBackwardRate,
     "attention_backward_tiled_bf16_128_narrow",
     "attention_backward_prepare_bf16",
     "attention_backward_finish_bf16_128_narrow"},
    {AttentionElement::bf16,
     {256, 64, 64, 8, 1},
     kBackwardRate,
     "attention_backward_tiled_bf16_256",
     "attention_backward_prepare_bf16",
     "attention_backward_finish_bf16_256"},
    {AttentionElement::bf16,
     {256, 32, 64, 8, 1},
     kBackwardRate,
     "attention_backward_tiled_bf16_256_compact",
     "attention_backward_prepare_bf16",
     "attention_backward_finish_bf16_256_compact"},
    {AttentionElement::bf16,
     {256, 32, 32, 4, 1, 1},
     kBackwardRate,
     "attention_backward_tiled_bf16_256_narrow",
     "attention_backward_prepare_bf16",
     "attention_backward_finish_bf16_256_narrow"},
    {AttentionElement::fp16,
     {64, 64, 128, 8, 1},
     kBackwardRate,
     "attention_backward_tiled_fp16_64",
     "attention_backward_prepare_fp16",
     "attention_backward_finish_fp16_64"},
    {AttentionElement::fp16,
     {96, 64, 128, 8, 1},
     kBackwardRate,
     "attention_backward_tiled_fp16_96",
     "attention_backward_prepare_fp16",
     "attention_backward_finish_fp16_96"},
    {AttentionElement::fp16,
     {96, 32, 64, 4, 1},
     kBackwardRate,
     "attention_backward_tiled_fp16_96_narrow",
     "attention_backward_prepare_fp16",
     "attention_backward_finish_fp16_96_narrow"},
    {AttentionElement::fp16,
     {128, 64, 128, 8, 1},
     kBackwardRate,
     "attention_backward_tiled_fp16_128",
     "attention_backward_prepare_fp16",
     "attention_backward_finish_fp16_128"},
    {AttentionElement::fp16,
     {128, 32, 64, 4, 1},
     kBackwardRate,
     "attention_backward_tiled_fp16_128_narrow",
     "attention_backward_prepare_fp16",
     "attention_backward_finish_fp16_128_narrow"},
    {AttentionElement::fp16,
     {256, 64, 64, 8, 1},
     kBackwardRate,
     "attention_backward_tiled_fp16_256",
     "attention_backward_prepare_fp16",
     "attention_backward_finish_fp16_256"},
    {AttentionElement::fp16,
     {256, 32, 64, 8, 1},
     kBackwardRate,
     "attention_backward_tiled_fp16_256_compact",
     "attention_backward_prepare_fp16",
     "attention_backward_finish_fp16_256_compact"},
    {AttentionElement::fp16,
     {256, 32, 32, 4, 1, 1},
     kBackwardRate,
     "attention_backward_tiled_fp16_256_narrow",
     "attention_backward_prepare_fp16",
     "attention_backward_finish_fp16_256_narrow"},
};

inline constexpr AttentionVariant<SplitAttentionTiling> kSplitForwardVariants[] = {
    {AttentionElement::fp32, {64, 256, 32, 8}, {0.103, 3e-6, kPortableOverhead}, "attention_forward_split_64"},
    {AttentionElement::fp32, {128, 128, 32, 8}, {0.081, 3e-6, kPortableOverhead}, "attention_forward_split_128"},
};

inline constexpr AttentionVariant<SplitAttentionTiling> kSplitBackwardVariants[] = {
    {AttentionElement::fp32,
     {64, 32, 128, 8},
     {0.09, 14e-6, kPortableOverhead},
     "attention_backward_split_64",
     "attention_backward_prepare_split"},
    {AttentionElement::fp32,
     {128, 32, 64, 8},
     {0.055, 14e-6, kPortableOverhead},
     "attention_backward_split_128",
     "attention_backward_prepare_split"},
};

// The tiling of the row with this entry. Without one this is no constant expression, and does not compile.
template <class Tiling, int kCount>
constexpr Tiling tiling_of(const AttentionVariant<Tiling> (&variants)[kCount], const char* entry) {
  const auto is_same = [](const char* a, const char* b) {
    while (*a != '\0' && *a == *b) ++a, ++b;
    return *a == *b;
  };
  int at = 0;
  while (!is_same(variants[at].entry, entry)) ++at;
  return variants[at].tiling;
}

}  // namespace ridgepoint::cuda
