// What the files of the fake driver share: fake_card.cpp, fake_memory.cpp and fake_work.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/cuda/fake/fake_card.h"
#include "backends/cuda/libraries/driver_api.h"

namespace ridgepoint::cuda {

// The driver's functions, as the engine calls them.
extern "C" {
#define DECLARE_FUNCTION(name, ...) CUresult name(__VA_ARGS__);
RIDGEPOINT_CUDA_DRIVER_FUNCTIONS(DECLARE_FUNCTION)
#undef DECLARE_FUNCTION
}

std::size_t from_environment(const char* name, std::size_t fallback);

// The status of a call that needs the GPU's context.
CUresult state();

// Of the GPU's memory, by this process and others.
std::atomic<std::size_t>& used_bytes();

// Null where the GPU computes nothing.
void* host_kernels();

void do_work(FakeWork work);  // queues work, or appends it to the graph under construction
bool is_capturing();
bool is_hanging();

template <typename Body>
CUresult on_card(const Body& body) {
  if (const CUresult failed = state(); failed != CUDA_SUCCESS) return failed;
  return body();
}

template <typename T>
CUresult say(T* to, std::type_identity_t<T> answer) {
  *to = answer;
  return CUDA_SUCCESS;
}

template <typename T, typename Handle>
CUresult destroy(Handle handle) {
  delete reinterpret_cast<T*>(handle);
  return state();
}

// Any distinct non-null handle.
template <typename Handle>
CUresult give(Handle* handle) {
  static char object;
  return on_card([&] { return say(handle, reinterpret_cast<Handle>(&object)); });
}

}  // namespace ridgepoint::cuda
