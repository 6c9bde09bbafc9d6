#include "backends/cuda/matmul_algorithm.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <mutex>

#include "backends/cuda/matmul_timing.h"
#include "core/disk_cache.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kCandidates = 12;
// A longer product fills the card whatever its tiles: the library's own ranking is left as it is.
constexpr double kWorthSearchingMs = 0.5;
constexpr std::size_t kWordDigits = 16;

struct Choices {
  std::mutex mutex;
  std::map<std::string, cublasLtMatmulAlgo_t, std::less<>> by_key;
};

Choices& choices() {
  static Choices instance;
  return instance;
}

std::string full_key(const CudaContext& context, const LtProblem& problem) {
  const CardFacts& card = context.card();
  return fmt::format("cublasLt {} | {} sm_{} with {} multiprocessors | {}", cublaslt().cublasLtGetVersion(), card.name,
                     card.capability.number(), card.multiprocessors, problem.key());
}

}  // namespace

cublasLtMatmulAlgo_t choose_algorithm(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem) {
  const std::string key = full_key(context, problem);
  const std::lock_guard lock(choices().mutex);
  const auto known = choices().by_key.find(key);
  if (known != choices().by_key.end()) return known->second;

  const DiskCache cache = DiskCache::in_user_folder("matmul");
  std::optional<cublasLtMatmulAlgo_t> algorithm;
  if (const std::optional<std::string> text = cache.load(key)) algorithm = algorithm_from_text(*text);
  if (!algorithm || !plan.accepts(*algorithm)) {
    const std::vector<cublasLtMatmulAlgo_t> candidates = plan.candidates(kCandidates);
    if (candidates.empty()) {
      throw Error(fmt::format("cuBLASLt has no algorithm on {} for {}", context.card().name, problem.key()),
                  ErrorKind::unsupported);
    }
    const std::optional<FastestAlgorithm> fastest = fastest_algorithm(context, plan, problem, candidates);
    algorithm = candidates[fastest ? fastest->index : 0];
    if (fastest && fastest->ms < kWorthSearchingMs) {
      const std::vector<cublasLtMatmulAlgo_t> variants = plan.variants(candidates);
      const std::optional<FastestAlgorithm> faster = fastest_algorithm(context, plan, problem, variants, fastest->ms);
      if (faster) algorithm = variants[faster->index];
    }
    if (fastest) cache.store(key, algorithm_to_text(*algorithm));
  }
  return choices().by_key[key] = *algorithm;
}

std::string algorithm_to_text(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<cublasLtMatmulAlgo_t> algorithm_from_text(std::string_view text) {
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
