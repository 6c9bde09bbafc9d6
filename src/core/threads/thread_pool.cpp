#include "core/threads/thread_pool.h"

#include <pthread.h>

#include <csignal>
#include <string>
#include <system_error>
#include <thread>

#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Busy-waits for at most kSpin. Returns whether `done` became true.
template <typename Condition>
bool spin_until(const Condition& done) {
  constexpr int kLooksPerClock = 32;
  const auto end = std::chrono::steady_clock::now() + ThreadPool::kSpin;
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (done()) return true;
      pause_processor();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

std::uint32_t next_call(const std::atomic<std::uint32_t>& called, std::uint32_t last) {
  std::uint32_t loop = last;
  if (!spin_until([&] { return (loop = called.load(std::memory_order_acquire)) != last; })) {
    called.wait(last, std::memory_order_acquire);
    loop = called.load(std::memory_order_acquire);
  }
  return loop;
}

// Blocks signals while pool threads are created: they inherit this thread's mask, so other threads handle signals.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

ThreadPool& ThreadPool::instance() {
  static ThreadPool& pool = *new ThreadPool;
  return pool;
}

void ThreadPool::make_threads(int count) {
  if (threads_ >= count) return;
  const NoSignals no_signals;
  try {
    for (; threads_ < count; ++threads_) std::thread([this, thread = threads_ + 1] { serve(thread); }).detach();
  } catch (const std::system_error& error) {
    throw Error("cannot create thread " + std::to_string(threads_ + 2) + " of " + std::to_string(count + 1) + ": " +
                error.code().message() + "; use fewer threads");
  }
}

void ThreadPool::serve(int thread) {
  const auto own = static_cast<std::size_t>(thread);
  for (std::uint32_t loop = 0;;) {
    loop = next_call(slots_[own].called, loop);
    take_ranges(loop, thread);
  }
}

// A thread starts with the range of its own number, whose data may be in its cache from an earlier loop.
void ThreadPool::take_ranges(std::uint32_t loop, int first) {
  const int ranges = ranges_.load(std::memory_order_relaxed);
  for (int i = 0; i < ranges; ++i) {
    const int range = (first + i) % ranges;
    std::uint32_t unclaimed = 2 * loop;
    std::atomic<std::uint32_t>& state = slots_[static_cast<std::size_t>(range)].range;
    if (state.load(std::memory_order_relaxed) != unclaimed) continue;
    if (!state.compare_exchange_strong(unclaimed, unclaimed + 1, std::memory_order_acquire)) continue;
    run_range_(context_, range);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void ThreadPool::await_end() {
  if (spin_until([&] { return unfinished_.load(std::memory_order_acquire) == 0; })) return;
  while (const int left = unfinished_.load(std::memory_order_acquire)) unfinished_.wait(left);
}

void ThreadPool::run(int ranges, int threads, RunRange run_range, void* context) {
  const std::lock_guard lock(caller_);
  make_threads(threads - 1);
  ++loop_;
  run_range_ = run_range;
  context_ = context;
  ranges_.store(ranges, std::memory_order_relaxed);
  unfinished_.store(ranges, std::memory_order_relaxed);
  for (int range = 0; range < ranges; ++range)
    slots_[static_cast<std::size_t>(range)].range.store(2 * loop_, std::memory_order_release);
  for (int thread = 1; thread < threads; ++thread) {
    std::atomic<std::uint32_t>& called = slots_[static_cast<std::size_t>(thread)].called;
    called.store(loop_, std::memory_order_release);
    called.notify_one();
  }
  take_ranges(loop_, 0);
  await_end();
}

}  // namespace ridgepoint
