// The rates that several kernels have; those of one kernel stand in its row alone.
#pragma once

#include "runtime/device/kernel_rate.h"

namespace ridgepoint::cuda {

// Elementwise kernels, reductions, norms, softmax, loss, copies and gathers: the bandwidth of a copy.
inline constexpr MemoryRate kRowRate{.share = 0.885, .fixed_seconds = 1.2e-6};
// Updates with moments of 8 bits. Finding the nearest code takes longer than moving the bytes; fitted to two models on
// an H100.
inline constexpr ProductRate kCodedUpdateRate{PeakRate::fp32, 0.025, kRowRate.share, 11e-6};

// Products, by cuBLASLt or the kernels of the engine that run in its place. One of bf16 or fp16 reaches 0.80 at 8192
// cubed; the shares are those of the products of models, under the clocks of a whole step.

// Products with a short inner dimension, which alone are bound by memory, write in tiles.
inline constexpr double kProductMemoryShare = 0.47;
inline constexpr double kProductFixedSeconds = 6.8e-6;

inline constexpr ProductRate kHalfProductRate{PeakRate::half, 0.68, kProductMemoryShare, kProductFixedSeconds};
// With rows of a matrix that do not begin at multiples of 16 bytes, for which the library has kernels without wide
// loads. No kernel was measured alone: a step of GPT-2 with its 50,257 tokens, batch 32 x 1024, took 112.3 ms on an
// H100 with such rows and 65.3 with padded ones, and the share assumes that three products with logits took all of the
// difference. Other types are assumed to lose nothing.
inline constexpr ProductRate kUnalignedHalfProductRate{PeakRate::half, 0.14, kProductMemoryShare, kProductFixedSeconds,
                                                       true};
inline constexpr ProductRate kFp8ProductRate{PeakRate::fp8, 0.60, kProductMemoryShare, kProductFixedSeconds};
inline constexpr ProductRate kTf32ProductRate{PeakRate::tf32, 0.65, kProductMemoryShare, kProductFixedSeconds};
// On Hopper, with an operand that is not contiguous along the inner dimension, as its tensor cores need it in tf32.
inline constexpr ProductRate kStridedTf32ProductRate{PeakRate::tf32, 0.42, kProductMemoryShare, kProductFixedSeconds};
inline constexpr ProductRate kFp32ProductRate{PeakRate::fp32, 0.75, kProductMemoryShare, kProductFixedSeconds};
// Products of experts in fp32, without tensor cores, on an H100.
inline constexpr ProductRate kGroupedFp32ProductRate{PeakRate::fp32, 0.28, kProductMemoryShare, kProductFixedSeconds};
// Six bf16 products (docs/decisions/0008), and the sums of blocks that share a tile.
inline constexpr ProductRate kSplitProductRate{PeakRate::half, 0.098, kProductMemoryShare, 8e-6};

// What an epilogue writes leaves while the next tile is summed; what a tile reads must be there before it ends.
inline constexpr EpilogueRate kElementwiseEpilogueRate{
    .product = kHalfProductRate, .memory_share = kRowRate.share, .reads = 1, .writes = 0.2};

}  // namespace ridgepoint::cuda
