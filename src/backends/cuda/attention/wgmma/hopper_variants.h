// The kernels of attention for Hopper, as variants.h has those of every GPU.
#pragma once

#include "backends/cuda/attention/common/variants.h"

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
  int query_stages = 1;
  int key_stages = 2;    // of k, and of v
  int key_groups = 1;    // warpgroups for the same queries, each of which takes every such step
  int most_keys = 0;     // of a problem that the kernel is for; 0: any number
  bool divided = false;  // whether thread blocks share tiles (hopper_division.h says when)
  int streams = 1;       // of tiles, each with its own warpgroups, that a thread block takes side by side

  constexpr int groups() const { return rows / 64 * key_groups; }  // of a stream
  constexpr int threads() const { return 128 * (streams * groups() + 1); }
  // Whether warpgroups issue products one after another, so that the exponentials of one run under those of another.
  constexpr bool takes_turns() const { return rows > 64 && streams == 1; }
  // A tile is in panels of 64 columns, each row of a panel 128 bytes.
  constexpr int panels() const { return (width + 63) / 64; }
  constexpr int query_bytes() const { return rows * panels() * 128; }
  constexpr int key_bytes() const { return keys * panels() * 128; }
  // The stages of q, and of k and v; tiles begin at multiples of 1,024 bytes.
  constexpr int stream_bytes() const {
    return query_stages * query_bytes() + 2 * key_stages * key_bytes() + merged_bytes();
  }
  constexpr int forward_shared_bytes() const { return 1024 + streams * stream_bytes(); }
  // What all warpgroups for the same queries but the first have of values, maxima and sums.
  constexpr int merged_bytes() const { return (key_groups - 1) * 128 * (width / 2 + 4) * 4; }
};

// Tilings of Hopper's backward kernels (attention_backward_wgmma.cu): two warpgroups that multiply keys, and one that
// loads. Each has 64 keys of a block of 128; where a block has 64, one has their scores and dv, the other dp and dk.
struct HopperBackwardTiling {
  static constexpr int kStages = 2;
  static constexpr int kGroups = 2;

  int width = 0;
  int rows = 0;             // queries of a step
  int keys = 64 * kGroups;  // of a block
  int key_stages = 1;       // of k and v
  HopperScores scores = HopperScores::plain;
  int most_causal_keys = 0;  // above 0: the last block of keys that adds to dq writes it, in causal problems up to this
  bool copies_sums = false;  // whether the copy engine adds dq to its sums, from shared memory
  bool dq_apart = false;     // whether a third warpgroup multiplies dq
  bool divided = false;      // whether thread blocks share blocks of keys (hopper_division.h says when)

  constexpr bool finishes() const { return most_causal_keys > 0; }
  constexpr bool shares_keys() const { return keys == 64; }
  // Whether heads that share k and v may be taken in parts, whose sums of dk and dv add up in memory. Where queries are
  // finished, and with a soft cap, registers are too few.
  constexpr bool adds_parts() const { return !divided && !finishes() && !has_soft_cap(scores); }
  // Warpgroups that multiply.
  constexpr int groups() const { return dq_apart ? kGroups + 1 : kGroups; }
  constexpr int threads() const { return 128 * (groups() + 1); }
  // Of threads that load, that multiply keys and, apart, that multiply dq. A multiprocessor has 65,536.
  constexpr int registers_of_loads() const {
    if (dq_apart) return shares_keys() ? 24 : 32;
    return rows == 128 ? 24 : 40;
  }
  constexpr int registers_of_keys() const {
    if (dq_apart) return finishes() ? 200 : 208;
    return rows == 64 ? 232 : 240;
  }
  constexpr int registers_of_dq() const { return 512 - registers_of_loads() - 2 * registers_of_keys(); }
  constexpr int panels() const { return (width + 63) / 64; }
  constexpr int padded_width() const { return 64 * panels(); }
  constexpr int query_bytes() const { return rows * panels() * 128; }
  constexpr int key_bytes() const { return keys * panels() * 128; }
  constexpr int score_bytes() const { return keys * rows * 2; }
  constexpr int weight_bytes() const { return shares_keys() ? score_bytes() : 0; }
  constexpr int sum_bytes() const { return copies_sums ? rows * padded_width() * 4 : 0; }
  static constexpr int kStateBytes = 3072;  // barriers and scalars of queries; a multiple of 1,024
  // The stages of k and v, of q, of the gradient of o, of the gradient of scores, of dq and of weights.
  constexpr int backward_shared_bytes() const {
    return kStateBytes + 2 * key_stages * key_bytes() +
           kStages * (2 * query_bytes() + score_bytes() + sum_bytes() + weight_bytes());
  }
};

// Rates of plain scores; those of windows and soft caps have what these add in predict/time/kernel_time.cpp.
inline constexpr AttentionRate kShortRate{.share = 0.60, .fixed_seconds = 4e-6, .overhead = 340, .block = 64};
inline constexpr AttentionRate kStreamsRate{.share = 0.508, .fixed_seconds = 4e-6, .overhead = 166, .block = 128};
inline constexpr AttentionRate kForwardRate64{.share = 0.526, .fixed_seconds = 3e-6, .overhead = 400};
inline constexpr AttentionRate kForwardRate96{.share = 0.66, .fixed_seconds = 5e-6, .overhead = 160};
inline constexpr AttentionRate kForwardRate128 = kForwardRate96;
inline constexpr AttentionRate kForwardRate256{.share = 0.76, .fixed_seconds = 5e-6, .overhead = 400};
inline constexpr AttentionRate kBackwardRate64{.share = 0.526, .fixed_seconds = 10e-6, .overhead = 240};
inline constexpr AttentionRate kBackwardRate96{.share = 0.569, .fixed_seconds = 12e-6, .overhead = 200};
inline constexpr AttentionRate kBackwardRate128 = kBackwardRate96;
inline constexpr AttentionRate kBackwardRate256{.share = 0.425, .fixed_seconds = 30e-6, .overhead = 200};

// Of the rows that hold a head, a problem runs the first whose conditions it meets. The same rows for both elements.
// clang-format off
#define RIDGEPOINT_FORWARD(element, kind, columns, rate, ...) \
  {AttentionElement::element, {.width = columns, __VA_ARGS__}, rate, "attention_forward_hopper_" kind #element "_" #columns}
#define RIDGEPOINT_FORWARD_DIVIDED(element, columns, rate, ...) \
  {AttentionElement::element, {.width = columns, __VA_ARGS__, .divided = true}, rate, \
   "attention_forward_hopper_divided_" #element "_" #columns, nullptr, "attention_forward_hopper_combine_" #element "_" #columns}
#define RIDGEPOINT_FORWARDS(element) \
  RIDGEPOINT_FORWARD(element, "few_", 64, kStreamsRate, .rows = 64, .keys = 128, .key_stages = 5, .key_groups = 3, .most_keys = 2048), \
  RIDGEPOINT_FORWARD(element, "short_", 64, kShortRate, .rows = 256, .keys = 64, .query_stages = 2, .key_stages = 4, .most_keys = 256), \
  RIDGEPOINT_FORWARD(element, "streams_", 64, kStreamsRate, .rows = 128, .keys = 64, .query_stages = 2, .key_stages = 4, .most_keys = 2048, .streams = 2), \
  RIDGEPOINT_FORWARD_DIVIDED(element, 64, kForwardRate64, .rows = 192, .keys = 128), \
  RIDGEPOINT_FORWARD(element, "", 64, kForwardRate64, .rows = 192, .keys = 128), \
  RIDGEPOINT_FORWARD_DIVIDED(element, 96, kForwardRate96, .rows = 128, .keys = 128), \
  RIDGEPOINT_FORWARD(element, "", 96, kForwardRate96, .rows = 128, .keys = 128), \
  RIDGEPOINT_FORWARD_DIVIDED(element, 128, kForwardRate128, .rows = 128, .keys = 128), \
  RIDGEPOINT_FORWARD(element, "", 128, kForwardRate128, .rows = 128, .keys = 128), \
  RIDGEPOINT_FORWARD(element, "", 256, kForwardRate256, .rows = 128, .keys = 80), \
  RIDGEPOINT_FORWARD(element, "window_", 64, kForwardRate64, .rows = 192, .keys = 128, .scores = HopperScores::window), \
  RIDGEPOINT_FORWARD(element, "window_", 96, kForwardRate96, .rows = 128, .keys = 128, .scores = HopperScores::window), \
  RIDGEPOINT_FORWARD(element, "window_", 128, kForwardRate128, .rows = 128, .keys = 128, .scores = HopperScores::window), \
  RIDGEPOINT_FORWARD(element, "window_", 256, kForwardRate256, .rows = 128, .keys = 80, .scores = HopperScores::window), \
  RIDGEPOINT_FORWARD(element, "soft_cap_", 64, kForwardRate64, .rows = 128, .keys = 128, .scores = HopperScores::soft_cap), \
  RIDGEPOINT_FORWARD(element, "soft_cap_", 96, kForwardRate96, .rows = 128, .keys = 128, .scores = HopperScores::soft_cap), \
  RIDGEPOINT_FORWARD(element, "soft_cap_", 128, kForwardRate128, .rows = 128, .keys = 128, .scores = HopperScores::soft_cap), \
  RIDGEPOINT_FORWARD(element, "soft_cap_", 256, kForwardRate256, .rows = 128, .keys = 64, .scores = HopperScores::soft_cap)

#define RIDGEPOINT_BACKWARD(element, kind, finish, columns, ...) \
  {AttentionElement::element, {.width = columns, __VA_ARGS__}, kBackwardRate##columns, "attention_backward_hopper_" kind #element "_" #columns, \
   "attention_backward_hopper_prepare_" #element, finish}
#define RIDGEPOINT_BACKWARD_OF_SCORES(element, kind, columns, ...) \
  RIDGEPOINT_BACKWARD(element, kind, "attention_backward_hopper_finish_" #element "_" #columns, columns, __VA_ARGS__)
#define RIDGEPOINT_BACKWARD_DIVIDED(element, columns, ...) \
  RIDGEPOINT_BACKWARD(element, "divided_", "attention_backward_hopper_add_parts_" #element "_" #columns, columns, __VA_ARGS__, .divided = true)
#define RIDGEPOINT_BACKWARD_SHORT(element, columns, ...) \
  RIDGEPOINT_BACKWARD(element, "short_", nullptr, columns, __VA_ARGS__)
#define RIDGEPOINT_BACKWARDS(element) \
  RIDGEPOINT_BACKWARD_DIVIDED(element, 64, .rows = 128, .key_stages = 2, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_SHORT(element, 64, .rows = 128, .key_stages = 2, .most_causal_keys = 1024, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "", 64, .rows = 128, .key_stages = 2, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_DIVIDED(element, 96, .rows = 64, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_SHORT(element, 96, .rows = 64, .key_stages = 2, .most_causal_keys = 1024), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "", 96, .rows = 64, .copies_sums = true, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_DIVIDED(element, 128, .rows = 64, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_SHORT(element, 128, .rows = 64, .key_stages = 2, .most_causal_keys = 1024), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "", 128, .rows = 64, .copies_sums = true, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "", 256, .rows = 64, .keys = 64, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "window_", 64, .rows = 128, .key_stages = 2, .scores = HopperScores::window, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "window_", 96, .rows = 64, .scores = HopperScores::window, .copies_sums = true, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "window_", 128, .rows = 64, .scores = HopperScores::window, .copies_sums = true, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "window_", 256, .rows = 64, .keys = 64, .scores = HopperScores::window, .dq_apart = true), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "soft_cap_", 64, .rows = 128, .key_stages = 2, .scores = HopperScores::soft_cap), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "soft_cap_", 96, .rows = 64, .scores = HopperScores::soft_cap, .copies_sums = true), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "soft_cap_", 128, .rows = 64, .scores = HopperScores::soft_cap, .copies_sums = true), \
  RIDGEPOINT_BACKWARD_OF_SCORES(element, "soft_cap_", 256, .rows = 64, .keys = 64, .scores = HopperScores::soft_cap, .dq_apart = true)

inline constexpr AttentionVariant<HopperForwardTiling> kHopperForwardVariants[] = {RIDGEPOINT_FORWARDS(bf16), RIDGEPOINT_FORWARDS(fp16)};
inline constexpr AttentionVariant<HopperBackwardTiling> kHopperBackwardVariants[] = {RIDGEPOINT_BACKWARDS(bf16), RIDGEPOINT_BACKWARDS(fp16)};
// clang-format on
#undef RIDGEPOINT_FORWARD
#undef RIDGEPOINT_FORWARD_DIVIDED
#undef RIDGEPOINT_FORWARDS
#undef RIDGEPOINT_BACKWARD
#undef RIDGEPOINT_BACKWARD_OF_SCORES
#undef RIDGEPOINT_BACKWARD_DIVIDED
#undef RIDGEPOINT_BACKWARD_SHORT
#undef RIDGEPOINT_BACKWARDS

}  // namespace ridgepoint::cuda
