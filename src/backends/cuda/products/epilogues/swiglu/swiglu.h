// Products whose epilogue is SwiGLU or its derivative, on Hopper (swiglu_matmul_wgmma.cu).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/epilogue_plan.h"

namespace ridgepoint::cuda {

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
  // The version of the kernels: a choice measured with another version is measured again.
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

}  // namespace ridgepoint::cuda
