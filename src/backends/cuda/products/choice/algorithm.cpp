#include "backends/cuda/products/choice/algorithm.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <mutex>
#include <vector>

#include "core/files/disk_cache.h"
#include "core/first_call_clock.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

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
    if (ranked.empty()) {
      throw Error(fmt::format("cuBLASLt on {} has no algorithm for the product {}", context.card().name, problem.key()),
                  ErrorKind::unsupported);
    }
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
