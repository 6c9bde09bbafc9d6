// Products that end in cross-entropy, on Hopper: the plan of the kernels in cross_entropy_matmul_wgmma.cu.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/cross_entropy/cross_entropy_node.h"
#include "backends/cuda/products/epilogues/end_plan.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

// The workspace has the targets' logits [T], then the parts of rows [tiles of columns,T].
class CrossEntropyPlan final : public EndPlan {
 public:
  // The version of the kernels: a choice measured with another version is measured again.
  static constexpr int kVersion = 1;

  // nullopt if the kernels do not support the layouts: x [T,K] and logits by rows, w [K,V] by columns, which all begin
  // at multiples of 16 bytes; dense targets, losses and log-sum-exps.
  static std::optional<CrossEntropyPlan> of(const CrossEntropyNode& node, const KernelSpec& spec);

  std::vector<EndTiling> candidates() const override;
  // The product, then the kernel that joins the parts of each row.
  std::vector<EndLaunch> launches(const EndTiling& tiling, int multiprocessors) const override;
  std::string key() const override;
  std::size_t workspace_bytes() const override;
  bool may_take_two_steps() const override { return node_.logits.has_value(); }

 private:
  EndTiles tiles(const EndTiling& tiling) const;
  std::int64_t parts_of_row(const EndTiling& tiling) const;
  std::size_t target_logits_bytes() const;
  EndLaunch product(const EndTiling& tiling, int multiprocessors) const;
  EndLaunch finish(const EndTiling& tiling) const;

  CrossEntropyNode node_;
  DType dtype_ = DType::bf16;
  std::int64_t x_row_ = 0, w_column_ = 0, logits_row_ = 0;  // elements from one to the next
};

}  // namespace ridgepoint::cuda
