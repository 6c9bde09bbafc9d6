// Measures the candidates to compute one product on a GPU.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/cuda/products/choice/plan.h"
#include "backends/cuda/products/choice/race.h"
#include "backends/cuda/products/choice/timing.h"
#include "backends/cuda/products/low_matmul/low_matmul.h"
#include "backends/cuda/products/split_matmul/split_matmul.h"

namespace ridgepoint::cuda {

using MatmulAlgorithm = std::variant<cublasLtMatmulAlgo_t, SplitTiling, LowTiling>;

// The version of the search: choices of another version are measured again.
inline constexpr std::string_view kMatmulSearchVersion = "race 6, operands cold, long ones at the power limit";

// Our own kernels for products, as they apply to one product.
struct OwnMatmuls {
  // Empty if the kernels do not apply to the product or do not run on such a GPU.
  std::optional<SplitMatmulPlan> split;
  std::optional<LowMatmulPlan> low;

  static OwnMatmuls of(const CardFacts& card, const MatmulProblem& problem) {
    OwnMatmuls own;
    if (has_split_matmul(card) && !problem.tf32) own.split = SplitMatmulPlan::of(problem);
    if (has_low_matmul(card)) own.low = LowMatmulPlan::of(problem);
    return own;
  }

  // The kernels and their versions: "and split 2"; "alone" if none applies.
  std::string versions() const {
    if (split) return "and split " + std::to_string(SplitMatmulPlan::kVersion);
    return low ? "and low " + std::to_string(LowMatmulPlan::kVersion) : "alone";
  }
  // What they need beyond the library's workspace; low_matmul's tilings keep to that.
  std::size_t workspace_bytes() const { return split ? split->workspace_bytes() : 0; }
};

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
  std::vector<MatmulBatch> run_batches(std::span<const std::size_t> ways, const BatchLaunches& launches);

  CudaContext& context_;
  const MatmulPlan& plan_;
  const LtProblem& problem_;
  const OwnMatmuls& own_;
  MatmulTimer timer_;
  MatmulRace race_;
  std::vector<MatmulAlgorithm> ways_;
  std::vector<MatmulLaunch> launches_;
};

// Chooses the algorithm of a matmul: the fastest of cuBLASLt's algorithms and, for fp32, bf16 and fp16 on Hopper, of
// our own kernels' tilings. It is measured once for each shape, GPU, driver and library version, and remembered by the
// process and on disk. Of processes that measure at once, as ranks do, all take the choice of the first, so that the
// next run computes the same bits. Measuring allocates temporary memory outside every allocator and limit; without
// enough memory the library's first candidate is chosen and not remembered on disk. Throws Error (unsupported) if the
// library has no algorithm at all.
MatmulAlgorithm choose_algorithm(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem,
                                 const OwnMatmuls& own);

// The text form of an algorithm on disk, and the reverse; nullopt for other text.
std::string algorithm_to_text(const MatmulAlgorithm& algorithm);
std::optional<MatmulAlgorithm> algorithm_from_text(std::string_view text);

}  // namespace ridgepoint::cuda
