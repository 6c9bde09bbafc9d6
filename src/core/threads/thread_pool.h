// The threads that loops run on. The caller of a loop works too; a range that no thread has begun is run by whoever is
// free, so that a thread which gets no processor costs the loop at most the range it holds. A thread that waits keeps
// its processor for kSpin and sleeps from then on: a machine that is busy otherwise loses no more than that.
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
  // Longer than what lies between two loops of a step, so that an idle machine wakes no thread within one; far
  // shorter than a time slice of the scheduler.
  static constexpr std::chrono::microseconds kSpin{200};

  // The process's own. Never destroyed: its threads sleep through the end of the program.
  static ThreadPool& instance();

  // run_range(context, r), which must not throw, once for every r in [0, ranges), on up to `threads` threads, the
  // caller's included. Threads are made when first needed; they take no signals. Loops of different callers take
  // turns. Throws Error where the system refuses a thread.
  using RunRange = void (*)(void* context, int range);
  void run(int ranges, int threads, RunRange run_range, void* context);

 private:
  // What range i of a loop and thread i are known by. Both are numbers of loops, so that a thread which comes late
  // finds nothing of a loop that has ended.
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> range{0};   // twice the loop's number while nobody has begun the range, else one more
    std::atomic<std::uint32_t> called{0};  // the last loop that the thread was called to
  };

  ThreadPool() : slots_(std::make_unique<Slot[]>(kMostThreads)) {}
  void make_threads(int count);
  void serve(int thread);
  void take_ranges(std::uint32_t loop, int first);
  void await_end();

  std::unique_ptr<Slot[]> slots_;
  std::mutex caller_;
  int threads_ = 0;  // made so far
  std::uint32_t loop_ = 0;
  // Of the loop in flight. What is not atomic is read by threads that hold one of its ranges alone.
  RunRange run_range_ = nullptr;
  void* context_ = nullptr;
  std::atomic<int> ranges_{0};
  alignas(64) std::atomic<int> unfinished_{0};
};

}  // namespace ridgepoint
