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

}  // namespace

struct MatmulRace::State {
  State(CudaContext& context, const Sizes& sizes)
      : a(context, sizes.a_bytes),
        b(context, sizes.b_bytes),
        c(context, sizes.c_bytes),
        workspace(context, sizes.workspace_bytes),
        start(context),
        stop(context) {}

  double launch_ms(const MatmulLaunch& launch, int launches) {
    start.record();
    for (int i = 0; i < launches; ++i) {
      if (!launch({a.address(), b.address(), c.address(), workspace.address()})) return INFINITY;
    }
    stop.record();
    return stop.ms_since(start) / launches;
  }

  Scratch a, b, c, workspace;
  Event start, stop;
};

MatmulRace::MatmulRace(CudaContext& context, const Sizes& sizes) {
  context.synchronize();
  state_ = std::make_unique<State>(context, sizes);
  if (!has_memory()) return;
  fill_random(context, sizes.dtype, state_->a.address(), sizes.a_bytes);
  fill_random(context, sizes.dtype, state_->b.address(), sizes.b_bytes);
}

MatmulRace::~MatmulRace() = default;

bool MatmulRace::has_memory() const {
  return state_->a.fits() && state_->b.fits() && state_->c.fits() && state_->workspace.fits();
}

double MatmulRace::best_ms(const MatmulLaunch& launch, double best_so_far_ms) {
  const double first_ms = state_->launch_ms(launch, 1);
  if (!(first_ms < INFINITY)) return INFINITY;
  const double again_ms = state_->launch_ms(launch, 1);
  if (again_ms > kHopeless * best_so_far_ms) return INFINITY;
  const int launches = std::clamp(static_cast<int>(kSampleMs / again_ms), 1, kMaxLaunchesPerSample);
  double best = launches == 1 ? again_ms : INFINITY;
  for (int i = launches == 1 ? 1 : 0; i < kSamples; ++i) best = std::min(best, state_->launch_ms(launch, launches));
  return best;
}

}  // namespace ridgepoint::cuda
