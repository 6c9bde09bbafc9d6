// The times of this engine's kernels on a GPU that is known by its datasheet. The rates are shares of the datasheet's,
// fitted to measured times on an H200 together with the fixed times of a launch; docs/predicted_times.md has the rows
// and their errors. The shares are carried over to other GPUs, where nothing has been measured.
#pragma once

#include <cstdint>
#include <optional>

#include "predict/cards/datasheet.h"

namespace ridgepoint {

// The seconds of one launch. Capturing launches shortens the fixed part.
struct KernelTime {
  double fixed = 0;
  double work = 0;  // max(operations / rate, bytes / bandwidth)
};

// The number format of a product. half: bf16 and fp16. quarter: codes of 8 bits. tf32_strided: an operand is not
// contiguous along the inner dimension, as Hopper's tensor cores need it in tf32.
enum class ProductKind : std::uint8_t { fp32, tf32, tf32_strided, half, quarter };

// A call of flash attention: q [batch, queries, width], k and v [., keys, width], all batch dimensions as one; heads
// that share keys make no fewer products, only fewer bytes.
struct AttentionSize {
  std::int64_t batch = 1, queries = 1, keys = 1, width = 1;
  bool causal = false;
  std::int64_t window = 0;  // keys that a query attends to; 0: no window
  bool has_soft_cap = false;
  double bytes = 0;                          // operands and results
  ProductKind products = ProductKind::half;  // half, fp32 or tf32
  bool is_backward = false;
};

class KernelRates {
 public:
  // Empty for a GPU on which no kernel of this build runs, and without the datasheet's rates.
  static std::optional<KernelRates> of(const Datasheet& card);

  // `flops` are 2 m n k for each product of the batch; `bytes` are operands and results.
  KernelTime product(ProductKind kind, double flops, double bytes) const;
  // 4 batch queries keys width operations, half of that where causal, those of the pairs that a window leaves, 2.5
  // times as many backward; the tiles' padding counts in addition. No call takes less time than its bytes, nor than
  // its longest block on one multiprocessor, except where multiprocessors share blocks.
  KernelTime attention(const AttentionSize& size) const;
  // AdamW over all parameters.
  KernelTime optimizer(double bytes) const;
  // quantise: `read_bytes` are those of the matrix, which two kernels read.
  KernelTime quantise(double read_bytes, double written_bytes) const;
  // Elementwise kernels, reductions, norms, softmax, loss, copies and gathers.
  KernelTime rows(double bytes) const;

  // The host's seconds for a launch that is not captured.
  static double host_seconds_per_launch();
  // What remains of a launch's fixed time where launches are captured.
  static double captured_share();

 private:
  explicit KernelRates(const Datasheet& card) : card_(card) {}

  const Datasheet& card_;
  double half_ = 0;  // the datasheet's; the others are achievable rates
  double quarter_ = 0;
  double tf32_ = 0;
  double tf32_strided_ = 0;
  double fp32_ = 0;
  double fp32_fixed_ = 0;
};

}  // namespace ridgepoint
