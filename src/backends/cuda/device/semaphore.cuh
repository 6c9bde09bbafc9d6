// Blocks that wait for one another. Each takes a number when it starts, and waits for blocks of smaller numbers only:
// those run already, so that in whatever order blocks start none waits for one that cannot.
#pragma once

#include "backends/cuda/device/packet.cuh"

namespace ridgepoint::cuda {

// The block's number, 0 for the first to start, by all threads. `started` counts up to `blocks`, all of the launch's,
// and is 0 before it and after it. `place` is the address of a word of shared memory that nothing writes before the
// next barrier.
__device__ __forceinline__ unsigned take_number(unsigned* started, unsigned blocks, std::uint32_t place) {
  if (threadIdx.x == 0) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(place), "r"(atomicInc(started, blocks - 1)) : "memory");
  }
  __syncthreads();
  unsigned number;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(number) : "r"(place) : "memory");
  return number;
}

// Sums that blocks add to in a fixed order, so that results repeat to the bit: a semaphore holds the number of the
// block that may add.

// By one thread, before a barrier of its block: waits until the semaphore is `value`. The blocks that raise it to that
// must have started.
__device__ __forceinline__ void wait_for_semaphore(const unsigned* semaphore, unsigned value) {
  unsigned now;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(semaphore) : "memory");
  } while (now != value);
}
// By one thread, after a barrier of its block that follows the additions: the next block may add.
__device__ __forceinline__ void release_semaphore(unsigned* semaphore) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(semaphore) : "memory");
}

// To two neighbours, at a multiple of 8 bytes.
__device__ __forceinline__ void add_pair(float* to, float x, float y) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
#else
  atomicAdd(to, x);
  atomicAdd(to + 1, y);
#endif
}

}  // namespace ridgepoint::cuda
