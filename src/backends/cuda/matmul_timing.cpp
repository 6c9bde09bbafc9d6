#include "backends/cuda/matmul_timing.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cuda/event.h"
#include "runtime/random_pattern.h"

namespace ridgepoint::cuda {
namespace {

// A candidate this much slower than the best on its first launch is not measured further.
constexpr double kHopeless = 1.5;
// One sample is as many launches as last this long, so that short ones are told apart; the best of a few counts.
constexpr double kSampleMs = 0.2;
constexpr int kMaxLaunchesPerSample = 20;
constexpr int kSamples = 3;

class Scratch {
 public:
  Scratch(CudaContext& context, std::size_t bytes)
      : context_(context), address_(bytes == 0 ? nullptr : context.allocate(bytes)), fits_(bytes == 0 || address_) {}
  ~Scratch() {
    if (address_ != nullptr) context_.release(address_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool fits() const { return fits_; }
  void* address() const { return address_; }

 private:
  CudaContext& context_;
  void* address_;
  bool fits_;
};

// The pattern is copied up once and doubled on the card until it fills the memory.
void fill_random(const CudaContext& context, DType dtype, void* target, std::size_t bytes) {
  if (bytes == 0) return;
  const std::vector<std::byte> pattern = random_pattern(dtype, bytes);
  const auto address = reinterpret_cast<CUdeviceptr>(target);
  const Driver& driver = context.driver();
  check(driver.cuMemcpyHtoDAsync(address, pattern.data(), pattern.size(), context.stream()), "copy to the card");
  for (std::size_t filled = pattern.size(); filled < bytes; filled *= 2) {
    check(driver.cuMemcpyDtoDAsync(address + filled, address, std::min(filled, bytes - filled), context.stream()),
          "copy on the card");
  }
  context.synchronize();  // the pattern is about to go
}

class Race {
 public:
  Race(CudaContext& context, const MatmulPlan& plan, const LtProblem& problem)
      : plan_(plan),
        a_(context, bytes_of(problem, problem.a)),
        b_(context, bytes_of(problem, problem.b)),
        c_(context, bytes_of(problem, problem.c)),
        workspace_(context, problem.workspace_bytes()),
        start_(context),
        stop_(context) {
    if (!has_memory()) return;
    fill_random(context, problem.dtype, a_.address(), bytes_of(problem, problem.a));
    fill_random(context, problem.dtype, b_.address(), bytes_of(problem, problem.b));
  }

  bool has_memory() const { return a_.fits() && b_.fits() && c_.fits() && workspace_.fits(); }

  // Infinite for an algorithm that does not run, and for one that is not worth a second look.
  double best_ms(const cublasLtMatmulAlgo_t& algorithm, double best_so_far_ms) {
    const double first_ms = launch_ms(algorithm, 1);
    if (!(first_ms < INFINITY)) return INFINITY;
    const double again_ms = launch_ms(algorithm, 1);
    if (again_ms > kHopeless * best_so_far_ms) return INFINITY;
    const int launches = std::clamp(static_cast<int>(kSampleMs / again_ms), 1, kMaxLaunchesPerSample);
    double best = launches == 1 ? again_ms : INFINITY;
    for (int i = launches == 1 ? 1 : 0; i < kSamples; ++i) best = std::min(best, launch_ms(algorithm, launches));
    return best;
  }

 private:
  static std::size_t bytes_of(const LtProblem& problem, const LtMatrix& matrix) {
    return static_cast<std::size_t>(matrix.elements(problem.batch)) * size_bytes(problem.dtype);
  }

  double launch_ms(const cublasLtMatmulAlgo_t& algorithm, int launches) {
    start_.record();
    for (int i = 0; i < launches; ++i) {
      if (plan_.launch(algorithm, a_.address(), b_.address(), c_.address(), workspace_.address()) !=
          CUBLAS_STATUS_SUCCESS) {
        return INFINITY;
      }
    }
    stop_.record();
    return stop_.ms_since(start_) / launches;
  }

  const MatmulPlan& plan_;
  Scratch a_, b_, c_, workspace_;
  Event start_, stop_;
};

}  // namespace

std::optional<FastestAlgorithm> fastest_algorithm(CudaContext& context, const MatmulPlan& plan,
                                                  const LtProblem& problem,
                                                  std::span<const cublasLtMatmulAlgo_t> algorithms, double to_beat_ms) {
  context.synchronize();
  Race race(context, plan, problem);
  if (!race.has_memory()) return std::nullopt;
  std::optional<FastestAlgorithm> fastest;
  double best_ms = to_beat_ms;
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    const double ms = race.best_ms(algorithms[i], best_ms);
    if (ms < best_ms) {
      best_ms = ms;
      fastest = {i, ms};
    }
  }
  return fastest;
}

}  // namespace ridgepoint::cuda
