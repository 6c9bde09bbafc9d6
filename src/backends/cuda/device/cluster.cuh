// Thread block clusters of Hopper (PTX ISA 8): blocks that run at the same time on neighbouring multiprocessors and
// reach each other's shared memory. The copy engine writes one tile to the shared memory of several of them
// (multicast).
#pragma once

#include "backends/cuda/device/tensor_copy.cuh"

namespace ridgepoint::cuda {

__device__ __forceinline__ int rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// A barrier for all threads of a cluster.
__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Arrives at the barrier at the same place in the shared memory of block `rank`. Orders nothing of this thread for that
// block: it tells that reads have ended. Release at the scope of the cluster would be a fence at every arrival.
__device__ __forceinline__ void arrive_at(SharedBarrier& barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cta.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(shared_address(&barrier.state)),
      "r"(rank)
      : "memory");
}

// copy_box() to the same place in the shared memory of every block whose bit in `ranks` is set; its bytes count at the
// barrier at the same place in each of them.
__device__ __forceinline__ void copy_box_to(unsigned ranks, std::uint32_t to, const TensorMap& map,
                                            SharedBarrier& barrier, int i0, int i1, int i2, int i3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, "
      "%4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(&map), "r"(shared_address(&barrier.state)), "r"(i0), "r"(i1), "r"(i2), "r"(i3),
      "h"(static_cast<unsigned short>(ranks))
      : "memory");
}

}  // namespace ridgepoint::cuda
