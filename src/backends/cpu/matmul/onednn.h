// This back end calls oneDNN on one thread at a time, because its own loops around the calls share the work between
// threads; oneDNN would otherwise start OpenMP threads of its own.
#pragma once

#include <omp.h>

namespace ridgepoint::cpu {

// While an object exists, oneDNN runs and makes primitives for this thread only. The destructor restores the setting of
// the calling program, which is local to the thread. oneDNN divides a primitive's work by the number of threads at its
// creation, and silently skips the work of threads that are missing when it runs; one thread is never missing.
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
