// Measures the candidates to compute one product on a GPU.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/cuda/products/choice/own_matmul.h"
#include "backends/cuda/products/choice/plan.h"
#include "backends/cuda/products/choice/race.h"
#include "backends/cuda/products/choice/timing.h"

namespace ridgepoint::cuda {

using MatmulAlgorithm = std::variant<cublasLtMatmulAlgo_t, SplitTiling, LowTiling>;

// The version of the search: choices of another version are measured again.
inline constexpr std::string_view kMatmulSearchVersion = "race 4, operands cold";

class MatmulSearch {
 public:
  // All arguments must outlive this object.
  MatmulSearch(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem, const OwnMatmuls& own);

  MatmulSearch(const MatmulSearch&) = delete;
  MatmulSearch& operator=(const MatmulSearch&) = delete;

  // Whether the GPU had enough memory for operands; otherwise nothing can be measured.
  bool can_measure() const { return timer_.has_memory(); }

  // The fastest of our own kernels' tilings, of cuBLASLt's candidates `ranked` and, if one of these leads and the
  // product is short, of their variants. nullopt if none can run.
  std::optional<MatmulAlgorithm> fastest(std::span<const cublasLtMatmulAlgo_t> ranked);

  // The measurements, for benchmarks and tests.
  const MatmulRace& race() const { return race_; }
  const std::vector<MatmulAlgorithm>& ways() const { return ways_; }
  const MatmulLaunch& launch(std::size_t way) const { return launches_[way]; }
  MatmulTimer& timer() { return timer_; }

 private:
  void add(const MatmulAlgorithm& algorithm, MatmulLaunch launch);  // if it can run
  void add_library(std::span<const cublasLtMatmulAlgo_t> algorithms);
  template <class Launch, class Plan, class Tiling>
  void add_own(const Plan& plan, const std::vector<Tiling>& tilings);
  std::vector<MatmulBatch> run_batches(std::span<const std::size_t> ways, int launches);

  CudaContext& context_;
  const MatmulPlan& plan_;
  const LtProblem& problem_;
  const OwnMatmuls& own_;
  MatmulTimer timer_;
  MatmulRace race_;
  std::vector<MatmulAlgorithm> ways_;
  std::vector<MatmulLaunch> launches_;
};

}  // namespace ridgepoint::cuda
