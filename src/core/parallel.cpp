#include "core/parallel.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

// One loop in flight. It lives on the caller's stack; workers reach it only through `current_job`.
struct Job {
  detail::RangeFunction function;
  void* body;
  std::int64_t count;
  int workers;
  int team = 0;  // threads that came; written and read by the caller
  std::atomic<int> finished{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error{};
};

// The OpenMP runtime's own hand-over is invisible to the thread sanitizer (and is not ours to rely on): a job is
// published by a release store here and given back by release increments of Job::finished.
std::atomic<Job*> current_job{nullptr};
std::mutex caller_mutex;
thread_local bool inside_loop = false;

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return std::max(omp_get_num_procs(), 1);
  return std::max(CPU_COUNT(&set), 1);
}

std::atomic<int>& configured_threads() {
  static std::atomic<int> threads{available_cores()};
  return threads;
}

void run_range(Job& job, int worker) {
  try {
    job.function(job.body, worker, worker_range(job.count, job.workers, worker));
  } catch (...) {
    if (!job.failed.exchange(true, std::memory_order_relaxed)) job.error = std::current_exception();
  }
}

// Runs in every thread of the team; names no variable of the caller, so nothing is passed behind our back. The
// team may be smaller than asked for, hence the stride.
void run_team(int threads) {
#pragma omp parallel num_threads(threads)
  {
    Job* job = current_job.load(std::memory_order_acquire);
    const int workers = job->workers;
    const int team = omp_get_num_threads();
    if (omp_get_thread_num() == 0) job->team = team;
    inside_loop = true;
    for (int worker = omp_get_thread_num(); worker < workers; worker += team) run_range(*job, worker);
    inside_loop = false;
    job->finished.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace

void set_thread_count(int count) {
  if (count < 0) {
    throw Error("a thread count of " + std::to_string(count) + " was asked for; give 1 or more, or 0 for every core",
                ErrorKind::usage);
  }
  configured_threads() = count == 0 ? available_cores() : count;
  omp_set_num_threads(configured_threads());
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
  const std::lock_guard lock(caller_mutex);
  Job job{function, body, count, workers};
  current_job.store(&job, std::memory_order_release);
  run_team(threads);
  // The team has ended; the loads make its writes visible by the language's rules as well.
  while (job.finished.load(std::memory_order_acquire) != job.team) {
  }
  current_job.store(nullptr, std::memory_order_relaxed);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace detail
}  // namespace ridgepoint
