// Synchronisation between thread blocks. Each block takes a number when it starts and waits for blocks with smaller
// numbers only. Those have started, so no order in which blocks start can deadlock.
#pragma once

#include "backends/cuda/device/packet.cuh"

namespace ridgepoint::cuda {

// Returns this block's number, 0 for the first block that starts, to all threads. `started` counts to `blocks`, the
// number of blocks of the launch, and is 0 before and after the launch. `address` is a word of shared memory that
// nothing writes before the next barrier.
__device__ __forceinline__ unsigned take_number(unsigned* started, unsigned blocks, std::uint32_t address) {
  if (threadIdx.x == 0) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(atomicInc(started, blocks - 1)) : "memory");
  }
  __syncthreads();
  unsigned number;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(number) : "r"(address) : "memory");
  return number;
}

// A semaphore makes blocks add to a sum in a fixed order, so that results are bit for bit reproducible: it has the
// number of the block that may add next. One thread waits until the semaphore is `value`, before a barrier of its
// block. The blocks that raise it to `value` must have started.

// By one thread, before a barrier of its block: waits until the semaphore is `value`. The blocks that raise it to that
// must have started.
__device__ __forceinline__ void wait_for_semaphore(const unsigned* semaphore, unsigned value) {
  unsigned now;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(semaphore) : "memory");
  } while (now != value);
}
// Lets the next block add. One thread calls this after a barrier that follows the additions.
__device__ __forceinline__ void release_semaphore(unsigned* semaphore) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(semaphore) : "memory");
}

// Adds to two consecutive floats at a multiple of 8 bytes.
__device__ __forceinline__ void add_pair(float* to, float x, float y) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
#else
  atomicAdd(to, x);
  atomicAdd(to + 1, y);
#endif
}

}  // namespace ridgepoint::cuda
