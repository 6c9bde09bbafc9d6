// Products that end in SwiGLU or in its derivative, on Hopper: the plan of the kernels in swiglu_matmul_wgmma.cu.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/end_plan.h"
#include "backends/cuda/products/epilogues/swiglu/swiglu_node.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

// A tiling's columns are those of b: forward, half of them are gate and half of them up.
class SwigluPlan final : public EndPlan {
 public:
  // The version of the kernels: a choice measured with another version is measured again.
  static constexpr int kVersion = 1;

  // nullopt if the kernel does not support the layouts: x [T,K] by rows, forward w [K,2F] by columns and backward w
  // [K,F] by rows, gate, up and results by rows, which all begin at multiples of 16 bytes.
  static std::optional<SwigluPlan> of(const SwigluNode& node, const KernelSpec& spec);

  std::vector<EndTiling> candidates() const override;
  std::vector<EndLaunch> launches(const EndTiling& tiling, int multiprocessors) const override;
  std::string key() const override;

 private:
  std::string function_name(const EndTiling& tiling) const;  // fused_swiglu_forward_128x128_2x1_bf16
  EndTiles tiles(const EndTiling& tiling) const;
  int shared_bytes(const EndTiling& tiling) const;
  std::vector<EndLaunch::Field> fields(const EndTiling& tiling) const;

  SwigluNode node_;
  DType dtype_ = DType::bf16;
  std::int64_t x_row_ = 0, w_line_ = 0;  // elements between rows of x, and between lines of w
  std::vector<std::int64_t> input_rows_, result_rows_;
};

}  // namespace ridgepoint::cuda
