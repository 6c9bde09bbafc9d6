// How this back end calls oneDNN: always on the one thread that calls, since the loops around the calls share the work
// between threads. oneDNN would otherwise run on OpenMP's threads, beside ours.
#pragma once

#include <omp.h>

namespace ridgepoint::cpu {

// While it lives, oneDNN runs and makes primitives for this thread alone. The calling program's setting, which is the
// thread's own, comes back at the end. oneDNN shares a primitive's work between as many threads as it could have when
// the primitive was made, and leaves undone the shares of those that are missing when it runs: with one there is
// nothing to miss.
class OneThread {
 public:
  OneThread() : threads_(omp_get_max_threads()) {
    if (threads_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (threads_ != 1) omp_set_num_threads(threads_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_;
};

}  // namespace ridgepoint::cpu
