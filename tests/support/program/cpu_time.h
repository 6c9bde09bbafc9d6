// The processor time of this thread, as the minimum of a few runs, so that other processes hardly matter.
#pragma once

#include <ctime>

#include <algorithm>
#include <limits>

namespace ridgepoint {

inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Work>
double least_seconds(int runs, Work work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    const double begin = thread_seconds();
    work();
    least = std::min(least, thread_seconds() - begin);
  }
  return least;
}

}  // namespace ridgepoint
