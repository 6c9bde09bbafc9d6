// This back end calls oneDNN on one thread at a time, because its own loops around the calls share the work between
// threads; oneDNN would otherwise start OpenMP threads of its own.
#pragma once

#include <omp.h>

#include <array>
#include <dnnl.hpp>

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

// oneDNN's matmul primitives. The interface that describes them differs between versions 2 and 3 of oneDNN.

// c = a b, with scratch memory from the caller. Throws dnnl::error if oneDNN has no such product, or only its reference
// kernel.
dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                             dnnl::primitive_attr attributes = {});

// The arguments of a primitive. They hold the addresses of a call, so no two threads may use them at one time.
class MatmulArguments {
 public:
  MatmulArguments(const dnnl::matmul::primitive_desc& description, const dnnl::engine& engine);

  // Uses the C interface, because the C++ one allocates a list of arguments at every call.
  dnnl_status_t execute(const dnnl::matmul& primitive, const dnnl::stream& stream, const void* a, const void* b,
                        void* c, void* scratch);

 private:
  std::array<dnnl::memory, 4> memory_;
  std::array<dnnl_exec_arg_t, 4> list_{};
};

}  // namespace ridgepoint::cpu
