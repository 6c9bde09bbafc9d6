#include "backends/cuda/products/choice/search.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

// A longer product fills the GPU with any tiling, so the candidates of the heuristic are enough; and no fp32 variant of
// the library is faster than our own kernel if that leads.
constexpr double kWorthSearchingMs = 0.5;

// Whether the result has fewer small tiles than the GPU has multiprocessors, so that split-K may be faster.
bool leaves_multiprocessors_idle(const LtProblem& problem, int multiprocessors) {
  constexpr std::int64_t kSmallTile = 64;
  const auto tiles = [](std::int64_t size) { return (size + kSmallTile - 1) / kSmallTile; };
  return problem.batch * tiles(problem.m) * tiles(problem.n) < multiprocessors;
}

MatmulTimer::Sizes sizes_of(const LtProblem& problem, const OwnMatmuls& own) {
  using Launch = LtProblem::Launch;
  const auto bytes = [&](const LtMatrix& matrix, std::int64_t Launch::*offset, DType dtype) {
    return static_cast<std::size_t>(problem.elements(matrix, offset)) * size_bytes(dtype);
  };
  return {.dtype = problem.dtype,
          .a_bytes = bytes(problem.a, &Launch::a, problem.dtype),
          .b_bytes = bytes(problem.b, &Launch::b, problem.dtype),
          .c_bytes = bytes(problem.c, &Launch::c, problem.result_dtype),
          .workspace_bytes = std::max(problem.workspace_bytes(), own.workspace_bytes()),
          .kernels = problem.launches.size()};
}

}  // namespace

MatmulSearch::MatmulSearch(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem,
                           const OwnMatmuls& own)
    : context_(context),
      plan_(plan),
      problem_(problem),
      own_(own),
      timer_(context, sizes_of(problem, own)),
      race_([this](std::span<const std::size_t> ways, int launches) { return run_batches(ways, launches); }) {}

void MatmulSearch::add(const MatmulAlgorithm& algorithm, MatmulLaunch launch) {
  if (!timer_.runs(launch)) return;
  ways_.push_back(algorithm);
  launches_.push_back(std::move(launch));
}

std::vector<MatmulBatch> MatmulSearch::run_batches(std::span<const std::size_t> ways, int launches) {
  std::vector<const MatmulLaunch*> batches;
  for (const std::size_t way : ways) batches.push_back(&launches_[way]);
  return timer_.cold_batches(batches, launches);
}

void MatmulSearch::add_library(std::span<const cublasLtMatmulAlgo_t> algorithms) {
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
    add(algorithm, [this, algorithm](const MatmulAddresses& at) {
      const MatmulPlan::Addresses addresses{at.a, at.b, at.c, at.c, at.workspace};
      return plan_.launch_all(algorithm, problem_, addresses) == CUBLAS_STATUS_SUCCESS;
    });
  }
}

template <class Launch, class Plan, class Tiling>
void MatmulSearch::add_own(const Plan& plan, const std::vector<Tiling>& tilings) {
  for (const Tiling& tiling : tilings) {
    try {
      const auto made = std::make_shared<Launch>(context_, plan, tiling);
      const MatmulLaunch launch = [made, adds = problem_.adds](const MatmulAddresses& at) {
        // The library's first operand is the node's second.
        made->launch({at.b, at.a, adds ? at.c : nullptr, at.c, at.workspace});
        return true;
      };
      add(tiling, launch);
    } catch (const Error&) {  // not enough memory for its code or blocks: the other candidates remain
    }
  }
}

std::optional<MatmulAlgorithm> MatmulSearch::fastest(std::span<const cublasLtMatmulAlgo_t> ranked) {
  const CudaContext::Scope scope(context_);
  const int multiprocessors = context_.card().multiprocessors;
  if (own_.split) add_own<SplitMatmulLaunch>(*own_.split, own_.split->candidates(multiprocessors));
  if (own_.low) add_own<LowMatmulLaunch>(*own_.low, own_.low->candidates(multiprocessors, problem_.workspace_bytes()));
  add_library(ranked);
  race_.screen_up_to(ways_.size());
  const std::optional<std::size_t> leader = race_.leader();
  const bool split_leads = leader && std::holds_alternative<SplitTiling>(ways_[*leader]);
  if (leader && !split_leads && race_.leader_ms() < kWorthSearchingMs) {
    add_library(plan_.variants(ranked, leaves_multiprocessors_idle(problem_, multiprocessors)));
    race_.screen_up_to(ways_.size());
  }
  const std::optional<std::size_t> winner = race_.winner();
  return winner ? std::optional(ways_[*winner]) : std::nullopt;
}

}  // namespace ridgepoint::cuda
