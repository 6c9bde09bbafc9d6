// Products whose epilogue is cross-entropy, on Hopper (cross_entropy_matmul_wgmma.cu).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/epilogue_plan.h"

namespace ridgepoint::cuda {

// logits [T,V] = x w, and the cross-entropy of each row with its target. Operands are x, w and the targets.
struct CrossEntropyEpilogue {
  MatrixProduct product;
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
  // The version of the kernels: a choice measured with another version is measured again.
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

}  // namespace ridgepoint::cuda
