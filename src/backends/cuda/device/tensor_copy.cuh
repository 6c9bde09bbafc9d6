// Copies of tiles from global to shared memory by the copy engine of Hopper (PTX ISA 8, "cp.async.bulk.tensor").
#pragma once

#include "backends/cuda/device/hopper.cuh"
#include "backends/cuda/device/tensor_map.h"

namespace ridgepoint::cuda {

__device__ __forceinline__ void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Arrives at the barrier, whose phase also waits for `bytes` of copies.
__device__ __forceinline__ void arrive_and_expect(SharedBarrier& barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier.state)),
      "r"(bytes)
      : "memory");
}

// Starts a copy of one box of the map, whose first element has these indices, the fastest first. What lies outside the
// tensor becomes 0, and counts as copied. One thread calls this.
__device__ __forceinline__ void copy_box(std::uint32_t to, const TensorMap& map, SharedBarrier& barrier, int i0, int i1,
                                         int i2, int i3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(shared_address(&barrier.state)), "r"(i0), "r"(i1), "r"(i2), "r"(i3)
      : "memory");
}

// Starts a copy of `bytes` that follow one another; addresses and bytes are multiples of 16. One thread calls this.
__device__ __forceinline__ void copy_bytes(std::uint32_t to, const void* from, int bytes, SharedBarrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(shared_address(&barrier.state))
               : "memory");
}

}  // namespace ridgepoint::cuda
