#include "backends/cuda/products/choice/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

#include "core/rounding.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {
namespace {

// The driver allocates memory at multiples of this, and operands are placed in the same way.
constexpr std::size_t kAlignmentBytes = 512;
constexpr std::size_t kMostCopies = 32;
// A launch seldom takes the host longer, and a fill is seldom faster.
constexpr double kLaunchUs = 5;
constexpr double kFillBytesPerUs = 4e6;
constexpr int kMostFills = 16;

std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignmentBytes); }

// The pattern is copied to the GPU once and doubled there until it fills the memory.
void fill_random(const CudaContext& context, DType dtype, void* target, std::size_t bytes) {
  if (bytes == 0) return;
  const std::vector<std::byte> pattern = random_pattern(dtype, bytes);
  const auto address = reinterpret_cast<CUdeviceptr>(target);
  const Driver& driver = context.driver();
  const CudaContext::Scope scope(context);
  check(driver.cuMemcpyHtoDAsync_v2(address, pattern.data(), pattern.size(), context.stream()), "copy to the GPU");
  for (std::size_t filled = pattern.size(); filled < bytes; filled *= 2) {
    check(driver.cuMemcpyDtoDAsync_v2(address + filled, address, std::min(filled, bytes - filled), context.stream()),
          "copy on the GPU");
  }
  context.synchronize();  // `pattern` is destroyed after this
}

}  // namespace

// Memory of the GPU, where there is enough.
class MatmulTimer::Scratch {
 public:
  Scratch(CudaContext& context, std::size_t bytes)
      : context_(context), address_(bytes == 0 ? nullptr : context.allocate(bytes)), fits_(bytes == 0 || address_) {}
  ~Scratch() {
    if (address_ != nullptr) context_.release(address_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool fits() const { return fits_; }
  std::byte* address() const { return static_cast<std::byte*>(address_); }

 private:
  CudaContext& context_;
  void* address_;
  bool fits_;
};

struct MatmulTimer::State {
  State(CudaContext& on, const Sizes& of)
      : context(on),
        sizes(of),
        copy_bytes(aligned(of.a_bytes) + aligned(of.b_bytes) + aligned(of.c_bytes)),
        overwritten_bytes(2 * on.card().l2_bytes),
        copies(std::clamp<std::size_t>((overwritten_bytes + copy_bytes - 1) / std::max<std::size_t>(copy_bytes, 1), 1,
                                       kMostCopies)),
        operands(on, copies * copy_bytes),
        workspace(on, of.workspace_bytes),
        overwritten(on, overwritten_bytes) {}

  Event& event(std::size_t index) {
    while (events.size() <= index) events.emplace_back(context);
    return events[index];
  }

  // Overwrites the cache, and keeps the GPU busy for about as long as the host needs to queue the batch.
  void clear_cache(int launches) const {
    const double queueing_us = kLaunchUs * launches * static_cast<double>(sizes.kernels);
    const double fill_us = static_cast<double>(overwritten_bytes) / kFillBytesPerUs;
    const int fills = queueing_us < kMostFills * fill_us ? static_cast<int>(queueing_us / fill_us) + 1 : kMostFills;
    for (int i = 0; i < fills; ++i) context.fill_zero(overwritten.address(), overwritten_bytes);
  }

  CudaContext& context;
  Sizes sizes;
  std::size_t copy_bytes;
  std::size_t overwritten_bytes;
  std::size_t copies;
  Scratch operands, workspace, overwritten;
  std::deque<Event> events;  // a deque, because events cannot move
  std::size_t next_copy = 0;
};

MatmulTimer::MatmulTimer(CudaContext& context, const Sizes& sizes) {
  context.synchronize();
  state_ = std::make_unique<State>(context, sizes);
  if (!has_memory()) return;
  fill_random(context, sizes.dtype, state_->operands.address(), state_->copies * state_->copy_bytes);
}

MatmulTimer::~MatmulTimer() = default;

bool MatmulTimer::has_memory() const {
  return state_->operands.fits() && state_->workspace.fits() && state_->overwritten.fits();
}

std::size_t MatmulTimer::copies() const { return state_->copies; }

MatmulAddresses MatmulTimer::operands(std::size_t copy) const {
  std::byte* a = state_->operands.address() + copy * state_->copy_bytes;
  std::byte* b = a + aligned(state_->sizes.a_bytes);
  return {a, b, b + aligned(state_->sizes.b_bytes), state_->workspace.address()};
}

// Queues the batch; the GPU time is read later.
MatmulBatch MatmulTimer::cold_batch(const MatmulLaunch& launch, const BatchLaunches& launches, Event& start,
                                    Event& stop) {
  using Clock = std::chrono::steady_clock;
  State& state = *state_;
  state.clear_cache(launches.untimed + launches.timed);
  MatmulBatch batch;
  const auto repeat = [&](int count) {
    for (int i = 0; i < count; ++i) {
      if (!launch(operands(state.next_copy))) batch.card_ms = INFINITY;
      state.next_copy = (state.next_copy + 1) % state.copies;
    }
  };
  repeat(launches.untimed);
  start.record();
  const Clock::time_point begin = Clock::now();
  repeat(launches.timed);
  batch.host_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  stop.record();
  return batch;
}

std::vector<MatmulBatch> MatmulTimer::cold_batches(std::span<const MatmulLaunch* const> ways,
                                                   const BatchLaunches& launches) {
  State& state = *state_;
  const CudaContext::Scope scope(state.context);
  std::vector<MatmulBatch> batches;
  for (std::size_t i = 0; i < ways.size(); ++i)
    batches.push_back(cold_batch(*ways[i], launches, state.event(2 * i), state.event(2 * i + 1)));
  for (std::size_t i = ways.size(); i-- > 0;) {
    const double card_ms = state.event(2 * i + 1).ms_since(state.event(2 * i));
    if (std::isfinite(batches[i].card_ms)) batches[i].card_ms = card_ms;
  }
  return batches;
}

}  // namespace ridgepoint::cuda
