#include "backends/cuda/matmul_algorithm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>

#include "backends/cuda/matmul_timing.h"
#include "core/disk_cache.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kCandidates = 12;
// A longer product fills the card whatever its tiles: the library's own ranking is left as it is; and it has no better
// variant of what our own kernel beats.
constexpr double kWorthSearchingMs = 0.5;
constexpr std::size_t kWordDigits = 16;

constexpr std::string_view kSplit = "split ";

struct Choices {
  std::mutex mutex;
  std::map<std::string, MatmulAlgorithm, std::less<>> by_key;
};

Choices& choices() {
  static Choices instance;
  return instance;
}

std::string full_key(const CudaContext& context, const LtProblem& problem) {
  const CardFacts& card = context.card();
  return fmt::format("cublasLt {} and split {} | {} sm_{} with {} multiprocessors | {}",
                     cublaslt().cublasLtGetVersion(), SplitMatmulPlan::kVersion, card.name, card.capability.number(),
                     card.multiprocessors, problem.key());
}

// Measures what it is given and keeps the best.
class Search {
 public:
  Search(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem, const SplitMatmulPlan* split)
      : context_(context), plan_(plan), problem_(problem), split_(split), race_(context, sizes(problem, split)) {}

  bool can_measure() const { return race_.has_memory(); }
  const std::optional<MatmulAlgorithm>& best() const { return best_; }
  double best_ms() const { return best_ms_; }

  void try_library(std::span<const cublasLtMatmulAlgo_t> algorithms) {
    for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
      keep(algorithm, [&](const MatmulAddresses& at) {
        return plan_.launch_all(algorithm, problem_, at.a, at.b, at.c, at.workspace) == CUBLAS_STATUS_SUCCESS;
      });
    }
  }

  void try_split() {
    if (split_ == nullptr) return;
    for (const SplitTiling& tiling : split_->candidates(context_.card().multiprocessors)) {
      SplitMatmulLaunch launch(context_, *split_, tiling);
      keep(tiling, [&](const MatmulAddresses& at) {
        launch.launch(at.b, at.a, at.c, at.workspace);  // the library's first operand is the node's second
        return true;
      });
    }
  }

 private:
  static MatmulRace::Sizes sizes(const LtProblem& problem, const SplitMatmulPlan* split) {
    using Launch = LtProblem::Launch;
    const auto bytes = [&](const LtMatrix& matrix, std::int64_t Launch::*offset) {
      return static_cast<std::size_t>(problem.elements(matrix, offset)) * size_bytes(problem.dtype);
    };
    const std::size_t workspace = split == nullptr ? 0 : split->workspace_bytes();
    return {problem.dtype, bytes(problem.a, &Launch::a), bytes(problem.b, &Launch::b), bytes(problem.c, &Launch::c),
            std::max(problem.workspace_bytes(), workspace)};
  }

  void keep(const MatmulAlgorithm& algorithm, const MatmulLaunch& launch) {
    const double ms = race_.best_ms(launch, best_ms_);
    if (ms < best_ms_) {
      best_ms_ = ms;
      best_ = algorithm;
    }
  }

  CudaContext& context_;
  const MatmulPlan& plan_;
  const LtProblem& problem_;
  const SplitMatmulPlan* split_;
  MatmulRace race_;
  std::optional<MatmulAlgorithm> best_;
  double best_ms_ = INFINITY;
};

bool accepts(const CudaContext& context, const MatmulPlan& plan, const SplitMatmulPlan* split,
             const MatmulAlgorithm& algorithm) {
  if (const auto* library = std::get_if<cublasLtMatmulAlgo_t>(&algorithm)) return plan.accepts(*library);
  return split != nullptr && split->accepts(std::get<SplitTiling>(algorithm), context.card().multiprocessors);
}

}  // namespace

MatmulAlgorithm choose_algorithm(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem,
                                 const SplitMatmulPlan* split) {
  const std::string key = full_key(context, problem);
  const std::lock_guard lock(choices().mutex);
  const auto known = choices().by_key.find(key);
  if (known != choices().by_key.end()) return known->second;

  const DiskCache cache = DiskCache::in_user_folder("matmul");
  std::optional<MatmulAlgorithm> algorithm;
  if (const std::optional<std::string> text = cache.load(key)) algorithm = algorithm_from_text(*text);
  if (!algorithm || !accepts(context, plan, split, *algorithm)) {
    const std::vector<cublasLtMatmulAlgo_t> candidates = plan.candidates(kCandidates);
    if (candidates.empty()) {
      throw Error(fmt::format("cuBLASLt has no algorithm on {} for {}", context.card().name, problem.key()),
                  ErrorKind::unsupported);
    }
    algorithm = candidates.front();
    Search search(context, plan, problem, split);
    if (search.can_measure()) {
      search.try_split();
      search.try_library(candidates);
      const bool library_leads = search.best() && std::holds_alternative<cublasLtMatmulAlgo_t>(*search.best());
      if (library_leads && search.best_ms() < kWorthSearchingMs) search.try_library(plan.variants(candidates));
      if (search.best()) {
        algorithm = *search.best();
        cache.store(key, algorithm_to_text(*algorithm));
      }
    }
  }
  return choices().by_key.insert_or_assign(key, *algorithm).first->second;
}

std::string algorithm_to_text(const MatmulAlgorithm& algorithm) {
  if (const auto* tiling = std::get_if<SplitTiling>(&algorithm)) return fmt::format("{}{}", kSplit, tiling->to_text());
  std::string text;
  for (const std::uint64_t word : std::get<cublasLtMatmulAlgo_t>(algorithm).data) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<MatmulAlgorithm> algorithm_from_text(std::string_view text) {
  if (text.starts_with(kSplit)) return SplitTiling::from_text(text.substr(kSplit.size()));
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
