// Sums that blocks add to in a fixed order, so that results repeat to the bit: a counter says whose turn it is.
#pragma once

namespace ridgepoint::cuda {

// By one thread, before a barrier of its block. The block whose turn it is must have been launched before.
__device__ __forceinline__ void await_turn(const unsigned* turn, unsigned mine) {
  unsigned now;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
  } while (now != mine);
}
// By one thread, after a barrier of its block that follows the additions.
__device__ __forceinline__ void end_turn(unsigned* turn) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(turn) : "memory");
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
