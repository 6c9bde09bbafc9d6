// Parallel loops on the process's thread pool (core/threads/thread_pool.h). A call allocates no memory. The partition
// depends only on the count, the grain and the thread count, never on timing.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace ridgepoint {

// The number of threads of later loops, the caller's included; 0 means usable_processors(). OpenMP's environment
// variables have no effect. Throws Error (usage) for a count below 0 or above 1024.
void set_thread_count(int count);
int thread_count();

// The number of ranges of a loop of `count` iterations with at least `grain` iterations in each.
int worker_count(std::int64_t count, std::int64_t grain);

struct IndexRange {
  std::int64_t begin;
  std::int64_t end;
};
// The range of one of `workers` in [0, count). Ranges are contiguous and in order; sizes differ by at most one.
IndexRange worker_range(std::int64_t count, int workers, int worker);

namespace detail {
using RangeFunction = void (*)(void* body, int worker, IndexRange range);
void run_parallel(std::int64_t count, int workers, RangeFunction function, void* body);
}  // namespace detail

// Calls body(worker, begin, end) once for each worker in [0, workers), concurrently. The first exception of a body is
// rethrown when all have ended. A nested loop runs on the calling thread alone; loops of different host threads run one
// after another.
template <typename Body>
void parallel_for_workers(std::int64_t count, int workers, Body&& body) {
  using Callable = std::remove_reference_t<Body>;
  const auto call = [](void* context, int worker, IndexRange range) {
    (*static_cast<Callable*>(context))(worker, range.begin, range.end);
  };
  detail::run_parallel(count, workers, call, const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

// Calls body(begin, end) on disjoint ranges that cover [0, count), each of at least `grain` iterations if there
// are that many. A single range runs on the calling thread.
template <typename Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
  if (count <= 0) return;
  const int workers = worker_count(count, grain);
  if (workers == 1) {
    body(std::int64_t{0}, count);
    return;
  }
  parallel_for_workers(count, workers, [&](int, std::int64_t begin, std::int64_t end) { body(begin, end); });
}

}  // namespace ridgepoint
