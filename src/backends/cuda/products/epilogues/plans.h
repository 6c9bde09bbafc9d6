// The plans of the epilogues on Hopper: what each computes, as the body of a fused node has it, and its kernels.
// kVersion is the version of the kernels: a choice that was measured with another version is measured again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/epilogue_plan.h"

namespace ridgepoint::cuda {

// SwiGLU or its derivative (swiglu_matmul_wgmma.cu).
// forward: z [T,2F] = x w, and hidden = silu(gate) up of the halves of z.
// backward: d [T,F] = x w is the gradient of hidden; the node reads gate and up and gives their gradients.
struct SwigluEpilogue {
  MatrixProduct product;
  bool is_backward = false;
  std::int64_t features = 0;                       // F
  std::size_t gate = 0, up = 0;                    // inputs; backward
  std::optional<std::size_t> halves = {};          // the result that is z; forward, absent where nothing else reads it
  std::size_t hidden = 0;                          // the result; forward
  std::size_t gate_gradient = 0, up_gradient = 0;  // results; backward
};

// Operands 0 and 1 are x and w. Nullopt for any other body.
std::optional<SwigluEpilogue> swiglu_of(const FusedBody& body);

// A tiling's columns are those of b: forward, half of them are gate and half of them up.
class SwigluPlan final : public EpiloguePlan {
 public:
  static constexpr int kVersion = 1;

  // nullopt if the kernel does not support the layouts: x [T,K] by rows, forward w [K,2F] by columns and backward w
  // [K,F] by rows, gate, up and results by rows, which all begin at multiples of 16 bytes.
  static std::optional<SwigluPlan> of(const SwigluEpilogue& epilogue, const KernelSpec& spec);

  std::vector<EpilogueTiling> candidates() const override;
  std::vector<EpilogueLaunch> launches(const EpilogueTiling& tiling, int multiprocessors) const override;
  std::string key() const override;

 private:
  EpilogueTiles tiles(const EpilogueTiling& tiling) const;
  std::vector<EpilogueLaunch::Field> fields(const EpilogueTiling& tiling) const;

  SwigluEpilogue epilogue_;
  ProductOperands operands_;
  std::vector<std::int64_t> input_rows_, result_rows_;
};

// Cross-entropy (cross_entropy_matmul_wgmma.cu):
// logits [T,V] = x w, and the cross-entropy of each row with its target. Operands are x, w and the targets.
struct CrossEntropyEpilogue {
  MatrixProduct product;
  double z_loss = 0;  // of the attribute of cross_entropy
  // The results; logits and log_sum_exps are absent where nothing else reads them.
  std::optional<std::size_t> logits = {};
  std::size_t losses = 0;
  std::optional<std::size_t> log_sum_exps = {};
};

// Nullopt for any other body.
std::optional<CrossEntropyEpilogue> cross_entropy_of(const FusedBody& body);

// The workspace has the targets' logits [T], then the parts of rows [tiles of columns,T].
class CrossEntropyPlan final : public EpiloguePlan {
 public:
  static constexpr int kVersion = 1;

  // nullopt if the kernels do not support the layouts: x [T,K] and logits by rows, w [K,V] by columns, which all begin
  // at multiples of 16 bytes; dense targets, losses and log-sum-exps.
  static std::optional<CrossEntropyPlan> of(const CrossEntropyEpilogue& epilogue, const KernelSpec& spec);

  std::vector<EpilogueTiling> candidates() const override;
  // The product, then the kernel that joins the parts of each row.
  std::vector<EpilogueLaunch> launches(const EpilogueTiling& tiling, int multiprocessors) const override;
  std::string key() const override;
  std::size_t workspace_bytes() const override;
  bool may_take_two_steps() const override { return epilogue_.logits.has_value(); }

 private:
  std::int64_t parts_of_row(const EpilogueTiling& tiling) const;
  std::size_t target_logits_bytes() const;
  EpilogueLaunch product(const EpilogueTiling& tiling, int multiprocessors) const;
  EpilogueLaunch finish(const EpilogueTiling& tiling) const;

  CrossEntropyEpilogue epilogue_;
  ProductOperands operands_;
  std::int64_t logits_row_ = 0;  // elements between rows
};

// A residual sum and its norm, or the derivative of both (residual_matmul_wgmma.cu, residual_backward_wgmma.cu).
// Of rows of N columns; p [T,N] = a b is the product, in a type of 16 bits, and all others are fp32 unless said.
// forward:  sum = x + p, r [T,1] = rsqrt(mean of sum^2 + epsilon), normed = sum r g in the type of p.
// backward: p is the gradient of normed, and `residual` that of sum from elsewhere; t = p g,
//           gradient = residual + t r - sum r^3 mean(t sum), low_gradient = gradient in the type of p,
//           of_g [N] = the sum of p sum r over the rows.
struct ResidualEpilogue {
  MatrixProduct product;
  bool is_backward = false;
  std::size_t g = 0;                                     // inputs
  std::size_t x = 0;                                     // forward
  std::size_t sum_input = 0, r_input = 0, residual = 0;  // backward
  // Results; those that may be absent are read by nobody.
  std::size_t sum = 0, normed = 0;
  std::optional<std::size_t> r = {};
  std::size_t of_g = 0, gradient = 0;
  std::optional<std::size_t> low_gradient = {};
  double epsilon = 0;
};

// Operands 0 and 1 are those of the product. Nullopt for any other body.
std::optional<ResidualEpilogue> residual_of(const FusedBody& body);

class ResidualPlan final : public EpiloguePlan {
 public:
  static constexpr int kVersion = 1;
  // Rows of tiles are counted in RowsBeside::kMostCounts words, and columns are kept in registers.
  static constexpr std::int64_t kMostTokens = 32768;
  static constexpr std::int64_t kMostColumns = 2048;

  // nullopt if the kernel does not support the layouts: a [T,K] by rows, forward b [K,N] by columns and backward by
  // rows, matrices of [T,N] by rows, which all begin at multiples of 16 bytes; other operands are dense.
  static std::optional<ResidualPlan> of(const ResidualEpilogue& epilogue, const KernelSpec& spec);

  std::vector<EpilogueTiling> candidates() const override;
  std::vector<EpilogueLaunch> launches(const EpilogueTiling& tiling, int multiprocessors) const override;
  std::string key() const override;
  std::size_t workspace_bytes() const override;

 private:
  // The parameters and fields of the main launch, but for its maps.
  void set_forward(EpilogueLaunch& launch, const LowMatmul& product) const;
  void set_backward(EpilogueLaunch& launch, const LowMatmul& product) const;
  EpilogueLaunch columns(int blocks) const;  // sums those of the blocks for the gradient of g
  std::size_t product_bytes() const;

  ResidualEpilogue epilogue_;
  ProductOperands operands_;
  std::vector<std::int64_t> input_rows_, result_rows_;
};

// Rotary embedding (rope_matmul_wgmma.cu).
// z [T,N] = x w, or x w + bias [N], whose first `columns` columns are heads that are rotated, and the others as they
// are. Row t is at position t % sequence. Operands are x, w, cosines, sines and the bias.
struct RopeEpilogue {
  MatrixProduct product;
  std::int64_t sequence = 0, head = 0, columns = 0;
  bool adds_bias = false;
};

// Nullopt for any other body.
std::optional<RopeEpilogue> rope_of(const FusedBody& body);

class RopePlan final : public EpiloguePlan {
 public:
  static constexpr int kVersion = 2;

  // nullopt if the kernels do not support the layouts: x [T,K] by rows, w [K,N] by columns and the result by rows,
  // which all begin at multiples of 16 bytes.
  static std::optional<RopePlan> of(const RopeEpilogue& epilogue, const KernelSpec& spec);

  std::vector<EpilogueTiling> candidates() const override;
  std::vector<EpilogueLaunch> launches(const EpilogueTiling& tiling, int multiprocessors) const override;
  std::string key() const override;
  bool may_take_two_steps() const override { return !epilogue_.adds_bias; }  // they would be three

 private:
  RopeEpilogue epilogue_;
  ProductOperands operands_;
  std::int64_t result_row_ = 0;  // elements between rows
};

}  // namespace ridgepoint::cuda
