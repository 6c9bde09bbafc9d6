// The order in which blocks of keys add to the sums of dq in attention_backward_wgmma.cu: two warps of the loading
// warpgroup, which wait for the previous block and let the next one add.
#pragma once

#include "backends/cuda/device/semaphore.cuh"
#include "backends/cuda/device/tensor_store.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_loads.cuh"

namespace ridgepoint::cuda {

// The sums of a block of queries, among those of all matrices and slices, and the semaphore of these.
template <HopperBackwardTiling kTiling>
__device__ __forceinline__ int sums_of(const AttentionBackward& attention, const Work<kTiling>& work, int step) {
  const int slice = kTiling.divided ? work.block % attention.slices : 0;
  return (slice * attention.batch + work.matrix) * ((attention.queries - 1) / kTiling.rows + 1) + step;
}

// The number of blocks of keys that add to the same sums before this one.
template <HopperBackwardTiling kTiling>
__device__ __forceinline__ int place_of(const AttentionBackward& attention, const Work<kTiling>& work, int step) {
  if constexpr (kTiling.divided) return work.block / attention.slices;
  if constexpr (!has_window(kTiling.scores)) return work.block;
  return work.block - first_visible_block(step * kTiling.rows, attention.window, kTiling.keys);
}

// One thread: calls `visit(work, step, ring)` for the steps of all blocks of keys.
template <HopperBackwardTiling kTiling, class Visit>
__device__ __forceinline__ void for_each_step(Shared<kTiling>& shared, const Visit& visit) {
  Works<kTiling> works(shared);
  Ring ring;
#pragma unroll 1
  for (;; works.advance()) {
    const Work<kTiling>& work = works.wait();
    if (work.matrix < 0) return;
#pragma unroll 1
    for (int step = work.last; step >= work.first; --step, ring.advance()) {
      visit(work, step, ring);
    }
    works.release();
  }
}

// One thread for each stage of dq: has the copy engine add dq of every other step to its sums, in the order of the
// blocks of keys. One addition takes longer than a step, so two are under way.
template <HopperBackwardTiling kTiling>
__device__ void add_query_gradients(const AttentionBackward& attention, const SharedTiles<kTiling>& tiles,
                                    Shared<kTiling>& shared, int stage) {
  constexpr int kBytes = kTiling.sum_bytes();
  for_each_step(shared, [&](const Work<kTiling>& work, int step, const Ring& ring) {
    if (ring.stage != stage) return;
    const int number = sums_of(attention, work, step);
    const int place = place_of(attention, work, step);
    float* sums = attention.dq_sums + static_cast<std::size_t>(number) * (kBytes / sizeof(float));
    if (place > 0) wait_for_semaphore(attention.semaphores + number, static_cast<unsigned>(place));
    shared.dq_written[stage].wait(ring.parity);
    order_stores();
    if (place > 0) {
      add_floats(sums, tiles.dq(stage), kBytes);
    } else {
      store_bytes(sums, tiles.dq(stage), kBytes);
    }
    end_stores();
    wait_for_stores<0>();
    shared.dq_free[stage].arrive();
    wait_for_complete_stores();
    release_semaphore(attention.semaphores + number);
  });
}

// One thread. Opens the turn of a step when the previous block of keys has added to its sums; end_turns() opens it too.
template <HopperBackwardTiling kTiling>
__device__ void open_turns(const AttentionBackward& attention, Shared<kTiling>& shared) {
  for_each_step(shared, [&](const Work<kTiling>& work, int step, const Ring& ring) {
    shared.added[ring.stage].wait(ring.parity ^ 1);
    const int place = place_of(attention, work, step);
    if (place > 0) {
      wait_for_semaphore(attention.semaphores + sums_of(attention, work, step), static_cast<unsigned>(place));
    }
    shared.turn[ring.stage].arrive();
  });
}

// One thread. Lets the next block of keys add to the sums of a step, and then opens the turn two steps later: the warps
// that add must not be two phases of `added` ahead.
template <HopperBackwardTiling kTiling>
__device__ void end_turns(const AttentionBackward& attention, Shared<kTiling>& shared) {
  for (SharedBarrier& turn : shared.turn) turn.arrive();
  for_each_step(shared, [&](const Work<kTiling>& work, int step, const Ring& ring) {
    shared.added[ring.stage].wait(ring.parity);
    release_semaphore(attention.semaphores + sums_of(attention, work, step));
    shared.turn[ring.stage].arrive();
  });
}

}  // namespace ridgepoint::cuda
