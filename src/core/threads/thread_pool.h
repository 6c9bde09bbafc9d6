// The thread pool of parallel loops. The calling thread works too. A free thread takes any unclaimed range, so that a
// descheduled thread delays at most the range it runs. A waiting thread spins for kSpin and then sleeps.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

namespace ridgepoint {

inline constexpr int kMostThreads = 1024;

class ThreadPool {
 public:
  // Longer than the time between two loops of a training step, so that threads do not sleep within one; far shorter
  // than a time slice of the scheduler.
  static constexpr std::chrono::microseconds kSpin{200};

  // The pool of the process. It is never destroyed, because its threads still exist when the program exits.
  static ThreadPool& instance();

  // Calls run_range(context, r), which must not throw, once for every r in [0, ranges), on up to `threads` threads, the
  // caller's included. Threads are created on first use and block all signals. Calls from different threads run one
  // after another. Throws Error where the system cannot create a thread.
  using RunRange = void (*)(void* context, int range);
  void run(int ranges, int threads, RunRange run_range, void* context);

 private:
  // The state of range i of a loop and of thread i. Both hold loop numbers, so that a late thread cannot claim a range
  // of a loop that has ended.
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> range{0};   // 2 * loop number while unclaimed, then 2 * loop number + 1
    std::atomic<std::uint32_t> called{0};  // number of the last loop that this thread was woken for
  };

  ThreadPool() : slots_(std::make_unique<Slot[]>(kMostThreads)) {}
  void make_threads(int count);
  void serve(int thread);
  void take_ranges(std::uint32_t loop, int first);
  void await_end();

  std::unique_ptr<Slot[]> slots_;
  std::mutex caller_;
  int threads_ = 0;  // created so far
  std::uint32_t loop_ = 0;
  // The running loop. Only threads that have claimed one of its ranges read the members that are not atomic.
  RunRange run_range_ = nullptr;
  void* context_ = nullptr;
  std::atomic<int> ranges_{0};
  alignas(64) std::atomic<int> unfinished_{0};
};

}  // namespace ridgepoint
