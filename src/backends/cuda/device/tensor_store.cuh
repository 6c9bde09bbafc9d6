// Copies of tiles from shared to global memory by the copy engine of Hopper (PTX ISA 8, "cp.async.bulk.tensor").
#pragma once

#include "backends/cuda/device/hopper.cuh"
#include "backends/cuda/device/tensor_map.h"

namespace ridgepoint::cuda {

// Starts a copy of one box of the map, whose first element has these indices, the fastest first; what lies outside the
// tensor is not written. One thread calls this, after a barrier that follows publish_to_tensor_cores() of the threads
// that wrote the tile, and then end_stores().
__device__ __forceinline__ void store_box(const TensorMap& map, std::uint32_t from, int i0, int i1, int i2, int i3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(from), "r"(i0), "r"(i1), "r"(i2), "r"(i3)
               : "memory");
}
// Starts a copy of bytes that follow one another, or the addition of floats to those in global memory. Addresses and
// `bytes` are multiples of 16. Called as store_box().
__device__ __forceinline__ void store_bytes(void* to, std::uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void add_floats(float* to, std::uint32_t from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void end_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// By the same thread: waits until all but the newest kPending groups of stores have read shared memory.
template <int kPending>
__device__ __forceinline__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// By the same thread: waits until all stores have reached global memory, before what this thread releases.
__device__ __forceinline__ void wait_for_complete_stores() {
  asm volatile("cp.async.bulk.wait_group 0;\nfence.proxy.async;" ::: "memory");
}
// After a wait for another thread's release, before stores to the same places.
__device__ __forceinline__ void order_stores() { asm volatile("fence.proxy.async;" ::: "memory"); }

}  // namespace ridgepoint::cuda
