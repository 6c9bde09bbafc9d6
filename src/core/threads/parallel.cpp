#include "core/threads/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>

#include "core/threads/processors.h"
#include "core/threads/thread_pool.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

// The state of one running loop, on the caller's stack. A thread accesses it only while it runs one of its ranges.
struct Job {
  detail::RangeFunction function;
  void* body;
  std::int64_t count;
  int workers;
  int ranges;
  std::atomic<bool> failed{false};
  std::exception_ptr error{};
};

thread_local bool inside_loop = false;

std::atomic<int>& configured_threads() {
  static std::atomic<int> threads{std::min(usable_processors(), kMostThreads)};
  return threads;
}

// A range runs several workers where the loop has more workers than the pool has ranges.
void run_range(void* context, int range) {
  Job& job = *static_cast<Job*>(context);
  inside_loop = true;
  try {
    for (int worker = range; worker < job.workers; worker += job.ranges)
      job.function(job.body, worker, worker_range(job.count, job.workers, worker));
  } catch (...) {
    if (!job.failed.exchange(true, std::memory_order_relaxed)) job.error = std::current_exception();
  }
  inside_loop = false;
}

}  // namespace

void set_thread_count(int count) {
  if (count < 0 || count > kMostThreads) {
    throw Error("the thread count " + std::to_string(count) + " is out of range; give 1 to " +
                    std::to_string(kMostThreads) + ", or 0 for every processor this process may use",
                ErrorKind::usage);
  }
  configured_threads() = count == 0 ? std::min(usable_processors(), kMostThreads) : count;
}

int thread_count() { return configured_threads().load(std::memory_order_relaxed); }

int worker_count(std::int64_t count, std::int64_t grain) {
  const std::int64_t ranges = count / std::max<std::int64_t>(grain, 1);
  return static_cast<int>(std::clamp<std::int64_t>(ranges, 1, thread_count()));
}

IndexRange worker_range(std::int64_t count, int workers, int worker) {
  const std::int64_t share = count / workers;
  const std::int64_t longer = count % workers;  // the first ranges take one more
  const std::int64_t begin = worker * share + std::min<std::int64_t>(worker, longer);
  return {begin, begin + share + (worker < longer ? 1 : 0)};
}

namespace detail {

void run_parallel(std::int64_t count, int workers, RangeFunction function, void* body) {
  const int threads = std::min(workers, thread_count());
  if (threads == 1 || inside_loop) {
    for (int worker = 0; worker < workers; ++worker) function(body, worker, worker_range(count, workers, worker));
    return;
  }
  Job job{function, body, count, workers, std::min(workers, kMostThreads)};
  ThreadPool::instance().run(job.ranges, threads, run_range, &job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace detail
}  // namespace ridgepoint
