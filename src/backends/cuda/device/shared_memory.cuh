// Shared memory: that of the launch, and asynchronous copies to it (cp.async, sm_80 and later; PTX ISA 8, "Data
// Movement and Conversion Instructions").
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

// As many bytes as the launch asks for.
__device__ __forceinline__ char* shared_of_launch() {
  extern __shared__ __align__(128) char shared[];
  return shared;
}

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Starts an asynchronous copy of 16 bytes, both addresses multiples of 16, or writes zeros.
__device__ __forceinline__ void copy_in(std::uint32_t to, const void* from, bool zeros) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(zeros ? 0 : 16) : "memory");
}

// end_copies() ends a batch of this thread's copies; wait_for_copies() waits until all but the newest kPending batches
// have completed. Another thread's copies are visible after its own wait and a barrier.
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// A barrier for `threads` threads; `id` is 1 to 15. All of them must wait at the same instruction.
__device__ __forceinline__ void meet(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// The same, for warps that wait at different places of the program.
__device__ __forceinline__ void meet_anywhere(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace ridgepoint::cuda
