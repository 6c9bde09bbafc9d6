// Products whose epilogue is rotary embedding, on Hopper (rope_matmul_wgmma.cu).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/epilogue_plan.h"

namespace ridgepoint::cuda {

// z [T,N] = x w, whose first `columns` columns are heads that are rotated, and the others as they are. Row t is at
// position t % sequence. Operands are x, w, cosines and sines.
struct RopeEpilogue {
  MatrixProduct product;
  std::int64_t sequence = 0, head = 0, columns = 0;
};

// Nullopt for any other body.
std::optional<RopeEpilogue> rope_of(const FusedBody& body);

class RopePlan final : public EpiloguePlan {
 public:
  // The version of the kernels: a choice measured with another version is measured again.
  static constexpr int kVersion = 1;

  // nullopt if the kernels do not support the layouts: x [T,K] by rows, w [K,N] by columns and the result by rows,
  // which all begin at multiples of 16 bytes.
  static std::optional<RopePlan> of(const RopeEpilogue& epilogue, const KernelSpec& spec);

  std::vector<EpilogueTiling> candidates() const override;
  std::vector<EpilogueLaunch> launches(const EpilogueTiling& tiling, int multiprocessors) const override;
  std::string key() const override;

 private:
  RopeEpilogue epilogue_;
  ProductOperands operands_;
  std::int64_t result_row_ = 0;  // elements between rows
};

}  // namespace ridgepoint::cuda
