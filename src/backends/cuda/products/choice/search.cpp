#include "backends/cuda/products/choice/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "core/files/disk_cache.h"
#include "core/first_call_clock.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cuda {
namespace {

// A longer product fills the GPU with any tiling, so the candidates of the heuristic are enough; of operands in 16
// bits, of which few variants are tried, some draw less power. No fp32 variant of the library is faster than our own
// kernel if that leads.
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

constexpr int kRanked = 12;  // candidates of cuBLASLt's heuristic
constexpr std::size_t kWordDigits = 16;

constexpr std::string_view kSplit = "split ";
constexpr std::string_view kLow = "low ";

struct Choices {
  std::mutex mutex;
  std::map<std::string, MatmulAlgorithm, std::less<>> by_key;
};

Choices& choices() {
  static Choices instance;
  return instance;
}

// Everything on which a choice depends: the product, the candidates, the method of measurement, and the versions.
std::string full_key(const CudaContext& context, const LtProblem& problem, const OwnMatmuls& own) {
  const CardFacts& card = context.card();
  int driver_version = 0;
  check(context.driver().cuDriverGetVersion(&driver_version), "read the driver's version");
  return fmt::format("{} | cublasLt {} {} | driver {} | {} sm_{} with {} multiprocessors | {}", kMatmulSearchVersion,
                     cublaslt().cublasLtGetVersion(), own.versions(), driver_version, card.name,
                     card.capability.number(), card.multiprocessors, problem.key());
}

bool supports(const CudaContext& context, const MatmulPlan& plan, const LtProblem& problem, const OwnMatmuls& own,
              const MatmulAlgorithm& algorithm) {
  const int multiprocessors = context.card().multiprocessors;
  if (const auto* library = std::get_if<cublasLtMatmulAlgo_t>(&algorithm)) return plan.supports(*library);
  if (const auto* split = std::get_if<SplitTiling>(&algorithm))
    return own.split && own.split->supports(*split, multiprocessors);
  return own.low && own.low->supports(std::get<LowTiling>(algorithm), multiprocessors, problem.workspace_bytes());
}

// Empty if nothing can be measured.
std::optional<MatmulAlgorithm> measured(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem,
                                        const OwnMatmuls& own, std::span<const cublasLtMatmulAlgo_t> ranked) {
  const InStage in_stage(FirstCallStage::choices);
  MatmulSearch search(context, plan, problem, own);
  return search.can_measure() ? search.fastest(ranked) : std::nullopt;
}

}  // namespace

MatmulSearch::MatmulSearch(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem,
                           const OwnMatmuls& own)
    : context_(context),
      plan_(plan),
      problem_(problem),
      own_(own),
      timer_(context, sizes_of(problem, own)),
      race_([this](std::span<const std::size_t> ways, const BatchLaunches& launches) {
        return run_batches(ways, launches);
      }) {}

void MatmulSearch::add(const MatmulAlgorithm& algorithm, MatmulLaunch launch) {
  if (!timer_.runs(launch)) return;
  ways_.push_back(algorithm);
  launches_.push_back(std::move(launch));
}

std::vector<MatmulBatch> MatmulSearch::run_batches(std::span<const std::size_t> ways, const BatchLaunches& launches) {
  std::vector<const MatmulLaunch*> batches;
  for (const std::size_t way : ways) batches.push_back(&launches_[way]);
  return timer_.cold_batches(batches, launches);
}

void MatmulSearch::add_library(std::span<const cublasLtMatmulAlgo_t> algorithms) {
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
    add(algorithm, [this, algorithm](const MatmulAddresses& at) {
      MatmulPlan::Addresses addresses{at.a, at.b, at.c, at.c, at.workspace};
      // Rows of codes are longer than their scales, and any numbers take as long.
      if (problem_.scales_rows) std::tie(addresses.a_scale, addresses.b_scale) = std::pair(at.a, at.b);
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
  const bool is_searched = race_.leader_ms() < kWorthSearchingMs || size_bytes(problem_.dtype) == 2;
  if (leader && !split_leads && is_searched) {
    const bool splits = leaves_multiprocessors_idle(problem_, multiprocessors);
    add_library(plan_.variants(ranked, problem_, splits, multiprocessors));
    race_.screen_up_to(ways_.size());
  }
  const std::optional<std::size_t> winner = race_.winner();
  return winner ? std::optional(ways_[*winner]) : std::nullopt;
}

MatmulAlgorithm choose_algorithm(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem,
                                 const OwnMatmuls& own) {
  const CudaContext::Scope scope(context);
  const std::string key = full_key(context, problem, own);
  const std::lock_guard lock(choices().mutex);
  const auto known = choices().by_key.find(key);
  if (known != choices().by_key.end()) return known->second;

  const DiskCache cache = DiskCache::in_user_folder("matmul");
  const auto accepted = [&](const std::string& text) {
    std::optional<MatmulAlgorithm> algorithm = algorithm_from_text(text);
    if (algorithm && !supports(context, plan, problem, own, *algorithm)) algorithm.reset();
    return algorithm;
  };
  std::optional<MatmulAlgorithm> algorithm = accepted(cache.load(key).value_or(""));
  if (!algorithm) {
    const std::vector<cublasLtMatmulAlgo_t> ranked = plan.candidates(kRanked);
    if (ranked.empty())
      throw_error(ErrorKind::unsupported, "cuBLASLt on {} has no algorithm for the product {}", context.card().name,
                  problem.key());
    algorithm = measured(context, plan, problem, own, ranked);
    if (algorithm) {
      const auto is_accepted = [&](const std::string& text) { return accepted(text).has_value(); };
      const std::string first = cache.store_first(key, algorithm_to_text(*algorithm), is_accepted);
      algorithm = accepted(first).value_or(*algorithm);
    } else {
      algorithm = ranked.front();
    }
  }
  return choices().by_key.emplace(key, *algorithm).first->second;
}

std::string algorithm_to_text(const MatmulAlgorithm& algorithm) {
  if (const auto* tiling = std::get_if<SplitTiling>(&algorithm)) return fmt::format("{}{}", kSplit, tiling->to_text());
  if (const auto* tiling = std::get_if<LowTiling>(&algorithm)) return fmt::format("{}{}", kLow, tiling->to_text());
  std::string text;
  for (const std::uint64_t word : std::get<cublasLtMatmulAlgo_t>(algorithm).data) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<MatmulAlgorithm> algorithm_from_text(std::string_view text) {
  if (text.starts_with(kSplit)) return SplitTiling::from_text(text.substr(kSplit.size()));
  if (text.starts_with(kLow)) return LowTiling::from_text(text.substr(kLow.size()));
  cublasLtMatmulAlgo_t algorithm{};
  if (text.size() != std::size(algorithm.data) * kWordDigits) return std::nullopt;
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i) {
    const char* begin = text.data() + i * kWordDigits;
    const auto read = std::from_chars(begin, begin + kWordDigits, algorithm.data[i], 16);
    if (read.ec != std::errc() || read.ptr != begin + kWordDigits) return std::nullopt;
  }
  return algorithm;
}

}  // namespace ridgepoint::cuda
