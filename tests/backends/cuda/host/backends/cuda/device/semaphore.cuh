// src/backends/cuda/device/semaphore.cuh for emulated blocks, which run one after another: what a block waits for has
// happened, or never does.
#pragma once

#include "backends/cuda/device/packet.cuh"

namespace ridgepoint::cuda {

inline unsigned take_number(unsigned* started, unsigned blocks, std::uint32_t address) {
  auto* const word = reinterpret_cast<unsigned*>(emulated::at_shared_address(address, sizeof(unsigned)));
  if (threadIdx.x == 0) *word = atomicInc(started, blocks - 1);
  __syncthreads();
  return *word;
}
inline void wait_for_semaphore(const unsigned* semaphore, unsigned value) {
  if (*semaphore != value)
    emulated::fail("a block waits for a semaphore that no earlier block has raised to its value");
}
inline void release_semaphore(unsigned* semaphore) { ++*semaphore; }
inline void add_pair(float* to, float x, float y) {
  to[0] += x;
  to[1] += y;
}

}  // namespace ridgepoint::cuda
