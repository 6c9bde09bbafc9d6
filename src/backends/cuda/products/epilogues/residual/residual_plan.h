// Products that end in a residual sum and its norm, or in the derivative of both, on Hopper: the plan of the kernels in
// residual_matmul_wgmma.cu and residual_backward_wgmma.cu.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/end_plan.h"
#include "backends/cuda/products/epilogues/residual/residual_node.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

class ResidualPlan final : public EndPlan {
 public:
  // The version of the kernels: a choice measured with another version is measured again.
  static constexpr int kVersion = 1;
  // Rows of tiles are counted in RowsBeside::kMostCounts words, and columns are kept in registers.
  static constexpr std::int64_t kMostTokens = 32768;
  static constexpr std::int64_t kMostColumns = 2048;

  // nullopt if the kernel does not support the layouts: a [T,K] by rows, forward b [K,N] by columns and backward by
  // rows, matrices of [T,N] by rows, which all begin at multiples of 16 bytes; other operands are dense.
  static std::optional<ResidualPlan> of(const ResidualNode& node, const KernelSpec& spec);

  std::vector<EndTiling> candidates() const override;
  std::vector<EndLaunch> launches(const EndTiling& tiling, int multiprocessors) const override;
  std::string key() const override;
  std::size_t workspace_bytes() const override;

 private:
  EndTiles tiles(const EndTiling& tiling) const;
  // The parameters and fields of the main launch, but for its maps.
  void set_forward(EndLaunch& launch, const LowMatmul& product) const;
  void set_backward(EndLaunch& launch, const LowMatmul& product) const;
  EndLaunch columns(int blocks) const;  // sums those of the blocks for the gradient of g
  std::vector<EndLaunch::Field> product_fields(const EndTiling& tiling) const;
  std::size_t product_bytes() const;

  ResidualNode node_;
  DType dtype_ = DType::bf16;
  std::int64_t a_row_ = 0, b_line_ = 0;  // elements between rows of a, and between lines of b
  std::vector<std::int64_t> input_rows_, result_rows_;
};

}  // namespace ridgepoint::cuda
