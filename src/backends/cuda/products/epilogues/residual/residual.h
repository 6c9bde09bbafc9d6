// Products whose epilogue is a residual sum and its norm, or the derivative of both, on Hopper
// (residual_matmul_wgmma.cu, residual_backward_wgmma.cu).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/epilogue_plan.h"

namespace ridgepoint::cuda {

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
  // The version of the kernels: a choice measured with another version is measured again.
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

}  // namespace ridgepoint::cuda
