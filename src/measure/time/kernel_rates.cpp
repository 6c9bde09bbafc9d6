#include "measure/time/kernel_rates.h"

#include <algorithm>
#include <cmath>

namespace ridgepoint {
namespace {

// Shares of the datasheet's dense rates. A product of bf16 or fp16 reaches 0.80 at 8192 cubed; the shares are those of
// the products of models, under the clocks of a whole step. fp32 on Hopper is computed on tensor cores as six bf16
// products (docs/decisions/0008), so its share is of the half rate; elsewhere it is cuBLASLt's in IEEE fp32.
constexpr double kHalfShare = 0.67;
constexpr double kTf32Share = 0.65;
constexpr double kStridedTf32Share = 0.42;
constexpr double kFp32ShareOfHalfOnHopper = 0.098;
constexpr double kFp32Share = 0.75;
constexpr int kHopper = 90;

// Shares of the half rate. Flash attention of fp32 multiplies fp16 parts (docs/decisions/0011); heads wider than 64
// have smaller tiles.
constexpr double kAttentionShare = 0.34, kAttentionBackwardShare = 0.263;
constexpr double kFp32AttentionShare = 0.103, kFp32AttentionBackwardShare = 0.09;
constexpr double kWideFp32AttentionShare = 0.081, kWideFp32AttentionBackwardShare = 0.055;

// Shares of the bandwidth. The first is that of a copy; products with a short inner dimension, which alone are bound by
// memory, write in tiles.
constexpr double kRowShare = 0.885;
constexpr double kProductMemoryShare = 0.47;
constexpr double kOptimizerShare = 0.76;

// Fixed seconds of a kernel: launch, filling and draining of the multiprocessors, and of fp32 products on Hopper the
// sums of blocks that share a tile.
constexpr double kProductFixed = 6.8e-6, kSplitProductFixed = 8e-6;
constexpr double kRowFixed = 1.2e-6;
constexpr double kAttentionFixed = 3e-6, kAttentionBackwardFixed = 14e-6;
constexpr double kOptimizerFixed = 8e-6;
constexpr double kCapturedShare = 0.67;
constexpr double kHostSeconds = 3.9e-6;

constexpr double kWidestHead = 128;    // of tiles that are not padded to 256
constexpr double kDiagonalKeys = 120;  // a tile reaches past the diagonal, and begins and ends with idle time

double round_up_to(double value, double step) { return std::ceil(value / step) * step; }

}  // namespace

std::optional<KernelRates> KernelRates::of(const Datasheet& card) {
  if (!can_describe_card(card.compute_capability)) return std::nullopt;
  if (!card.bf16 || !card.fp32 || !card.tf32) return std::nullopt;
  KernelRates rates(card);
  const bool is_hopper = card.compute_capability == kHopper;
  rates.half_ = *card.bf16;
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
    case ProductKind::half:
      break;
  }
  return {kProductFixed, std::max(flops / (half_ * kHalfShare), memory)};
}

KernelTime KernelRates::attention(const AttentionSize& size) const {
  const auto batch = static_cast<double>(size.batch);
  const auto queries = static_cast<double>(size.queries);
  const auto keys = static_cast<double>(size.keys);
  double width = std::max(round_up_to(static_cast<double>(size.width), size.is_fp32 ? 64 : 32), 64.0);
  if (width > kWidestHead) width = round_up_to(width, 256);
  const bool is_wide = width > 64;

  double share = size.is_backward ? kAttentionBackwardShare : kAttentionShare;
  double block = 128;  // queries of a block, or keys in backward
  if (size.is_fp32 && size.is_backward) {
    share = is_wide ? kWideFp32AttentionBackwardShare : kFp32AttentionBackwardShare;
    if (is_wide) block = 64;
  } else if (size.is_fp32) {
    share = is_wide ? kWideFp32AttentionShare : kFp32AttentionShare;
    if (!is_wide) block = 256;
  }
  const double blocks = batch * std::ceil((size.is_backward ? keys : queries) / block);
  const double idle = std::max(1.0, card_.multiprocessors / std::max(blocks, 1.0));
  const double seen_keys = (size.causal ? keys / 2 : keys) + kDiagonalKeys;
  const double flops = (size.is_backward ? 2.5 : 1.0) * 4 * batch * queries * seen_keys * width;
  return {size.is_backward ? kAttentionBackwardFixed : kAttentionFixed, flops * idle / (half_ * share)};
}

KernelTime KernelRates::optimizer(double bytes) const {
  return {kOptimizerFixed, bytes / (card_.bytes_per_second * kOptimizerShare)};
}

KernelTime KernelRates::rows(double bytes) const { return {kRowFixed, bytes / (card_.bytes_per_second * kRowShare)}; }

double KernelRates::host_seconds_per_launch() { return kHostSeconds; }
double KernelRates::captured_share() { return kCapturedShare; }

}  // namespace ridgepoint
