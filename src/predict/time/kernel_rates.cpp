#include "predict/time/kernel_rates.h"

#include <algorithm>
#include <cmath>

namespace ridgepoint {
namespace {

// Shares of the datasheet's dense rates. A product of bf16 or fp16 reaches 0.80 at 8192 cubed; the shares are those of
// the products of models, under the clocks of a whole step. fp32 on Hopper is computed on tensor cores as six bf16
// products (docs/decisions/0008), so its share is of the half rate; elsewhere it is cuBLASLt's in IEEE fp32.
constexpr double kHalfShare = 0.68;
constexpr double kQuarterShare = 0.60;
constexpr double kTf32Share = 0.65;
constexpr double kStridedTf32Share = 0.42;
constexpr double kFp32ShareOfHalfOnHopper = 0.098;
constexpr double kFp32Share = 0.75;
constexpr int kHopper = 90;

// Flash attention by one kernel.
struct AttentionRate {
  double share;  // of the half rate
  double fixed;  // seconds
  double block;  // queries of a block, or keys in backward
  // What a block multiplies beyond the keys (in backward: queries) that it sees: tiles that reach past the diagonal,
  // and the idle time when it begins and ends.
  double more;
  bool divides = false;  // whether multiprocessors share blocks that are too few for them
};
constexpr double kWidestHead = 128;  // of tiles that are not padded to 256

// The kernels for every GPU. Those of fp32 and tf32 multiply fp16 parts (docs/decisions/0011).
AttentionRate portable_rate(const AttentionSize& size, double width) {
  if (size.products == ProductKind::half) {
    return size.is_backward ? AttentionRate{0.263, 14e-6, 128, 120} : AttentionRate{0.34, 3e-6, 128, 120};
  }
  if (width > 64) return size.is_backward ? AttentionRate{0.055, 14e-6, 64, 120} : AttentionRate{0.081, 3e-6, 128, 120};
  return size.is_backward ? AttentionRate{0.09, 14e-6, 128, 120} : AttentionRate{0.103, 3e-6, 256, 120};
}

// Hopper's kernels of bf16 and fp16 operands. Heads up to 64 have forwards of their own for short sequences.
constexpr std::int64_t kShortKeys = 256;
constexpr std::int64_t kStreamKeys = 2048;
AttentionRate hopper_half_rate(const AttentionSize& size, double width) {
  if (width > kWidestHead) {
    return size.is_backward ? AttentionRate{0.40, 30e-6, 64, 400} : AttentionRate{0.76, 5e-6, 128, 400};
  }
  if (width > 64) {
    return size.is_backward ? AttentionRate{0.569, 12e-6, 128, 200, true} : AttentionRate{0.66, 5e-6, 128, 160, true};
  }
  if (size.is_backward) return {0.526, 10e-6, 128, 240, true};
  const bool is_plain = size.window == 0 && !size.has_soft_cap;
  if (size.keys <= kShortKeys && is_plain) return {0.60, 4e-6, 64, 340};
  if (size.keys <= kStreamKeys && is_plain) return {0.508, 4e-6, 128, 166};
  return {0.526, 3e-6, 192, 400, true};
}

// Hopper's kernels of fp32 operands, in one part for tf32 and two for fp32.
AttentionRate hopper_split_rate(const AttentionSize& size, double width) {
  constexpr double kShares[2][2][3] = {{{0.19, 0.192, 0.177}, {0.197, 0.205, 0.151}},  // fp32: forward, backward
                                       {{0.31, 0.40, 0.40}, {0.36, 0.433, 0.30}}};     // tf32
  const int of_width = width > kWidestHead ? 2 : width > 64 ? 1 : 0;
  const double share = kShares[size.products == ProductKind::tf32][size.is_backward][of_width];
  return {share, size.is_backward ? 14e-6 : 8e-6, size.is_backward && of_width == 2 ? 64.0 : 128.0, 260};
}

// The kernels are chosen as in src/backends/cuda/attention.
AttentionRate attention_rate(const AttentionSize& size, double width, bool is_hopper) {
  if (!is_hopper) return portable_rate(size, width);
  const bool is_plain = size.window == 0 && !size.has_soft_cap;
  if (size.products != ProductKind::half) {
    constexpr std::int64_t kPortableKeys = 64;
    const bool is_split = is_plain && (size.keys > kPortableKeys || width > kWidestHead);
    return is_split ? hopper_split_rate(size, width) : portable_rate(size, width);
  }
  constexpr std::int64_t kPortableKeys = 256;  // in forward
  const bool is_portable = !size.is_backward && size.keys <= kPortableKeys && (width > 64 || !is_plain);
  return is_portable ? portable_rate(size, width) : hopper_half_rate(size, width);
}

// A soft cap takes an exponential and a reciprocal of each score. A multiprocessor begins 16 of them in a cycle (CUDA
// C++ Programming Guide, "Throughput of Native Arithmetic Instructions"), while it adds and multiplies 128 times, or 64
// with compute capability 8.0. In forward none runs beside products, in backward half of them does.
constexpr double kFunctionsOfCap = 2, kFunctionsOfCapInBackward = 1;
double special_functions_per_second(const Datasheet& card) {
  constexpr int kHalfTheLanes = 80;
  return *card.fp32 / 2 * 16 / (card.compute_capability == kHalfTheLanes ? 64 : 128);
}

// Shares of the bandwidth. The first is that of a copy; products with a short inner dimension, which alone are bound by
// memory, write in tiles.
constexpr double kRowShare = 0.885;
constexpr double kProductMemoryShare = 0.47;
constexpr double kOptimizerShare = 0.81;

// Fixed seconds of a kernel: launch, filling and draining of the multiprocessors, and of fp32 products on Hopper the
// sums of blocks that share a tile.
constexpr double kProductFixed = 6.8e-6, kSplitProductFixed = 8e-6;
constexpr double kRowFixed = 1.2e-6;
constexpr double kOptimizerFixed = 8e-6;
constexpr double kCapturedShare = 0.62;
constexpr double kHostSeconds = 3.9e-6;

// A window has a second edge with tiles that reach past it, but blocks of equal length: times what a block multiplies
// beyond what it sees.
constexpr double kMoreOfWindow = 1.35, kMoreOfWindowInBackward = 0.7;

// What it takes to add the parts of blocks that multiprocessors share.
constexpr double kDivisionSeconds = 10e-6;

// The keys that a query attends to, in backward the queries that attend to a key.
double seen_on_average(const AttentionSize& size, double rows, double others) {
  if (size.window == 0) return size.causal ? others / 2 : others;
  const auto window = static_cast<double>(size.window);
  return (window * rows - window * (window - 1) / 2) / rows;
}

double round_up_to(double value, double step) { return std::ceil(value / step) * step; }

}  // namespace

std::optional<KernelRates> KernelRates::of(const Datasheet& card) {
  if (!can_describe_card(card.compute_capability)) return std::nullopt;
  if (!card.bf16 || !card.fp32 || !card.tf32) return std::nullopt;
  KernelRates rates(card);
  const bool is_hopper = card.compute_capability == kHopper;
  rates.half_ = *card.bf16;
  rates.quarter_ = card.fp8.value_or(*card.bf16) * kQuarterShare;
  rates.tf32_ = *card.tf32 * kTf32Share;
  rates.tf32_strided_ = *card.tf32 * (is_hopper ? kStridedTf32Share : kTf32Share);
  rates.fp32_ = is_hopper ? *card.bf16 * kFp32ShareOfHalfOnHopper : *card.fp32 * kFp32Share;
  rates.fp32_fixed_ = is_hopper ? kSplitProductFixed : kProductFixed;
  return rates;
}

KernelTime KernelRates::product(ProductKind kind, double flops, double bytes) const {
  const double memory = bytes / (card_.bytes_per_second * kProductMemoryShare);
  switch (kind) {
    case ProductKind::fp32:
      return {fp32_fixed_, std::max(flops / fp32_, memory)};
    case ProductKind::tf32:
      return {kProductFixed, std::max(flops / tf32_, memory)};
    case ProductKind::tf32_strided:
      return {kProductFixed, std::max(flops / tf32_strided_, memory)};
    case ProductKind::quarter:
      return {kProductFixed, std::max(flops / quarter_, memory)};
    case ProductKind::half:
      break;
  }
  return {kProductFixed, std::max(flops / (half_ * kHalfShare), memory)};
}

KernelTime KernelRates::attention(const AttentionSize& size) const {
  const auto batch = static_cast<double>(size.batch);
  const auto queries = static_cast<double>(size.queries);
  const auto keys = static_cast<double>(size.keys);
  double width =
      std::max(round_up_to(static_cast<double>(size.width), size.products == ProductKind::half ? 32 : 64), 64.0);
  if (width > kWidestHead) width = round_up_to(width, 256);
  const AttentionRate rate = attention_rate(size, width, card_.compute_capability == kHopper);

  // Of causal attention the longest block sees all keys, in backward all queries; with a window not more than that.
  const double rows = size.is_backward ? keys : queries;
  const double others = size.is_backward ? queries : keys;
  const double of_window = size.is_backward ? kMoreOfWindowInBackward : kMoreOfWindow;
  const double seen = seen_on_average(size, rows, others) + (size.window > 0 ? of_window : 1) * rate.more;
  const double reach = size.window > 0 ? static_cast<double>(size.window) : others;
  const double seen_by_all = batch * rows * seen;
  const double seen_by_longest = std::min(rate.block, rows) * std::max(seen, reach);
  const double flops_of_one = (size.is_backward ? 2.5 : 1.0) * 4 * width;
  const double seconds_of_one = flops_of_one / (half_ * rate.share);
  double scores = std::max(seen_by_all, seen_by_longest * card_.multiprocessors);
  if (rate.divides && size.window == 0 && !size.has_soft_cap) {
    scores = std::min(scores, seen_by_all + kDivisionSeconds / seconds_of_one);
  }
  double seconds = seconds_of_one * scores;
  const double functions = size.is_backward ? kFunctionsOfCapInBackward : kFunctionsOfCap;
  if (size.has_soft_cap) seconds += functions * scores / special_functions_per_second(card_);
  return {rate.fixed, std::max(seconds, size.bytes / (card_.bytes_per_second * kRowShare))};
}

KernelTime KernelRates::optimizer(double bytes) const {
  return {kOptimizerFixed, bytes / (card_.bytes_per_second * kOptimizerShare)};
}

KernelTime KernelRates::quantise(double read_bytes, double written_bytes) const {
  const KernelTime largest = rows(read_bytes);
  const KernelTime codes = rows(read_bytes + written_bytes);
  return {largest.fixed + codes.fixed, largest.work + codes.work};
}

KernelTime KernelRates::rows(double bytes) const { return {kRowFixed, bytes / (card_.bytes_per_second * kRowShare)}; }

double KernelRates::host_seconds_per_launch() { return kHostSeconds; }
double KernelRates::captured_share() { return kCapturedShare; }

}  // namespace ridgepoint
