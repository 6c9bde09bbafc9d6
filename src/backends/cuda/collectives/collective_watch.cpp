#include "backends/cuda/collectives/collective_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "runtime/device/communicator.h"

namespace ridgepoint::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kPoll{0.1};
constexpr Seconds kTimeToThrow{2};
constexpr Seconds kTimeToEnd{30};
constexpr std::uint32_t kSeen = 0;
constexpr std::size_t kPageBytes = 4096;

}  // namespace

CollectiveWatch::CollectiveWatch(const CudaContext& context, NcclHandle handle, Seconds limit,
                                 std::function<void(const std::string&)> leave)
    : context_(context), limit_(limit), leave_(std::move(leave)), handles_{handle} {
  const CudaContext::Scope scope(context);
  word_ = static_cast<std::uint32_t*>(std::aligned_alloc(kPageBytes, kPageBytes));  // never released
  *word_ = kSeen;
  const Driver& driver = context.driver();
  check(driver.cuMemHostRegister_v2(word_, kPageBytes, CU_MEMHOSTREGISTER_DEVICEMAP), "pin host memory");
  check(driver.cuMemHostGetDevicePointer_v2(&word_on_card_, word_, 0), "map host memory");
  std::thread([this] { run(); }).detach();  // like the context, it stays until the process ends
}

void CollectiveWatch::watch(NcclHandle handle) {
  const std::lock_guard lock(mutex_);
  handles_.push_back(handle);
}

CollectiveWatch::Number CollectiveWatch::add(std::string description) {
  const std::lock_guard lock(mutex_);
  Number number = 0;
  while (descriptions_.contains(number)) ++number;
  descriptions_.emplace(number, std::move(description));
  return number;
}

void CollectiveWatch::remove(Number number) {
  const std::lock_guard lock(mutex_);
  descriptions_.erase(number);
}

void CollectiveWatch::mark(std::uint32_t value, CUstream stream) {
  const CudaContext::Scope scope(context_);
  check(context_.driver().cuMemsetD32Async(word_on_card_, value, 1, stream), "mark a collective");
}

void CollectiveWatch::run() {
  const auto poll = std::min(kPoll, limit_ / 10);
  for (;;) {
    std::this_thread::sleep_for(poll);
    const std::string found = problem();
    if (found.empty()) continue;
    context_.fail(found);
    std::this_thread::sleep_for(kTimeToThrow);
    if (context_.has_thrown_failure()) std::this_thread::sleep_for(kTimeToEnd);
    leave_(found);
    return;
  }
}

std::string CollectiveWatch::problem() {
  const std::atomic_ref<std::uint32_t> word(*word_);
  std::uint32_t value = word.load();
  if (value % 2 == 1) {
    if (word.compare_exchange_strong(value, kSeen)) {
      is_running_ = true;
      running_ = (value - 1) / 2;
      since_ = Clock::now();
    }
  } else if (value != kSeen) {
    is_running_ = false;
  }
  if (!is_running_) return "";
  if (const std::string error = noted_error(); !error.empty())
    return fmt::format("NCCL could not finish {}: {}", description_of(running_), error);
  if (Clock::now() - since_ < limit_) return "";
  return describe_hang(description_of(running_), limit_.count());
}

std::string CollectiveWatch::noted_error() {
  const std::lock_guard lock(mutex_);
  for (const NcclHandle handle : handles_) {
    NcclStatus status = NcclStatus::success;
    if (nccl().ncclCommGetAsyncError(handle, &status) != NcclStatus::success) continue;
    if (status == NcclStatus::success || status == NcclStatus::in_progress) continue;
    return fmt::format("{} ({})", nccl().ncclGetErrorString(status), nccl().ncclGetLastError(handle));
  }
  return "";
}

std::string CollectiveWatch::description_of(Number number) {
  const std::lock_guard lock(mutex_);
  const auto found = descriptions_.find(number);
  return found == descriptions_.end() ? "a collective" : found->second;
}

}  // namespace ridgepoint::cuda
