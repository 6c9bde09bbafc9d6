// Products that end in rotary embedding, on Hopper: the plan of the kernels in rope_matmul_wgmma.cu.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/end_plan.h"
#include "backends/cuda/products/epilogues/rope/rope_node.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

class RopePlan final : public EndPlan {
 public:
  // The version of the kernels: a choice measured with another version is measured again.
  static constexpr int kVersion = 1;

  // nullopt if the kernels do not support the layouts: x [T,K] by rows, w [K,N] by columns and the result by rows,
  // which all begin at multiples of 16 bytes.
  static std::optional<RopePlan> of(const RopeNode& node, const KernelSpec& spec);

  std::vector<EndTiling> candidates() const override;
  std::vector<EndLaunch> launches(const EndTiling& tiling, int multiprocessors) const override;
  std::string key() const override;

 private:
  EndTiles tiles(const EndTiling& tiling) const;
  std::vector<EndLaunch::Field> fields(const EndTiling& tiling) const;

  RopeNode node_;
  DType dtype_ = DType::bf16;
  std::int64_t x_row_ = 0, w_column_ = 0, result_row_ = 0;  // elements between lines
};

}  // namespace ridgepoint::cuda
