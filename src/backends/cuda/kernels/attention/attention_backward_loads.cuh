// The loading warpgroup of attention_backward_wgmma.cu, which draws its warps: blocks of keys, what is in shared
// memory, copies of tiles, and the order in which blocks of keys add to dq.
#pragma once

#include "backends/cuda/device/semaphore.cuh"
#include "backends/cuda/kernels/attention/attention_hopper.cuh"
#include "backends/cuda/kernels/attention/hopper_variants.h"
#include "backends/cuda/kernels/attention/window.h"

namespace ridgepoint::cuda {

inline constexpr int kGroups = HopperBackwardTiling::kGroups;
inline constexpr int kStages = HopperBackwardTiling::kStages;
inline constexpr int kKeys = HopperBackwardTiling::kKeys;

// A block of keys, for one head of the queries: its steps of queries from `last` down to `first`. Heads whose gradients
// of k and v are added follow one another.
template <HopperBackwardTiling kTiling>
struct Work {
  int block, matrix;  // a matrix of -1: no more blocks of keys
  int first_key;
  int first, last;
  int end;            // the number of steps to the end of this block of keys, of all that this thread block has taken
  bool is_last_head;  // of those whose gradients are added

  Work() = default;
  // Head number `head` of those that share the keys.
  __device__ __forceinline__ Work(const AttentionBackward& attention, int number, int head) {
    const int groups = attention.batch / attention.summed_heads;
    block = number / groups;
    const bool exists = block < (attention.keys - 1) / kKeys + 1;
    matrix = exists ? (number - block * groups) * attention.summed_heads + head : -1;
    is_last_head = head == attention.summed_heads - 1;
    first_key = block * kKeys;
    first = attention.causal ? first_key / kTiling.rows : 0;
    const int last_query = has_window(kTiling.scores)
                               ? last_seeing_query(first_key + kKeys, attention.window, attention.queries)
                               : attention.queries - 1;
    last = last_query / kTiling.rows;
  }
};

// The number of a block of keys, and of the head among those whose gradients are added. In shared memory, because the
// loading warps have few registers.
struct NextWork {
  int number = 0, head = 0;

  __device__ __forceinline__ void advance(const AttentionBackward& attention) {
    if (++head < attention.summed_heads) return;
    head = 0;
    number = static_cast<int>(atomicAdd(attention.started, 1U));
  }
};

template <HopperBackwardTiling kTiling>
struct Shared {
  SharedBarrier work_written[kStages], work_free[kStages];
  SharedBarrier keys_written, keys_free;
  SharedBarrier q_written[kStages], q_free[kStages];
  SharedBarrier do_written[kStages], do_free[kStages];
  SharedBarrier turn[kStages], added[kStages];
  Work<kTiling> work[kStages];
  NextWork next;  // of the thread that loads
  // Of each query: the log-sum-exp to base 2, and sum(do o).
  alignas(16) float log_sum_exp[kStages][kTiling.rows];
  alignas(16) float products[kStages][kTiling.rows];
};

// What follows Shared, at a multiple of 1,024 bytes.
template <HopperBackwardTiling kTiling>
struct SharedTiles {
  std::uint32_t k;
  __device__ __forceinline__ std::uint32_t v() const { return k + kTiling.key_bytes(); }
  __device__ __forceinline__ std::uint32_t q(int stage) const {
    return k + 2 * kTiling.key_bytes() + stage * kTiling.query_bytes();
  }
  __device__ __forceinline__ std::uint32_t d_o(int stage) const { return q(stage + kStages); }
  __device__ __forceinline__ std::uint32_t ds(int stage) const {
    return q(2 * kStages) + stage * kTiling.score_bytes();
  }
};

// Takes blocks of keys until there are no more. One thread.
template <HopperBackwardTiling kTiling>
__device__ void load_tiles(const HopperAttentionBackward& attention, const SharedTiles<kTiling>& tiles,
                           Shared<kTiling>& shared) {
  constexpr int kPanels = kTiling.panels();
  Ring works, ring;
  int steps = 0;
  shared.next.head = attention.rest.summed_heads - 1;
#pragma unroll 1
  for (unsigned parity = 0;; parity ^= 1, works.advance()) {
    shared.work_free[works.stage].wait(works.parity ^ 1);
    shared.next.advance(attention.rest);
    Work<kTiling>& work = shared.work[works.stage];
    work = Work<kTiling>(attention.rest, shared.next.number, shared.next.head);
    steps += work.last - work.first + 1;
    work.end = steps;
    shared.work_written[works.stage].arrive();
    if (work.matrix < 0) return;
    const Division place = divide(static_cast<unsigned>(work.matrix), attention.rest.inner_count);
    shared.keys_free.wait(parity ^ 1);
    arrive_and_expect(shared.keys_written, 2 * kTiling.key_bytes());
    copy_rows<kKeys, kPanels>(tiles.k, attention.k, shared.keys_written, work.first_key, place);
    copy_rows<kKeys, kPanels>(tiles.v(), attention.v, shared.keys_written, work.first_key, place);
#pragma unroll 1
    for (int step = work.last; step >= work.first; --step, ring.advance()) {
      shared.q_free[ring.stage].wait(ring.parity ^ 1);
      arrive_and_expect(shared.q_written[ring.stage], kTiling.query_bytes());
      copy_rows<kTiling.rows, kPanels>(tiles.q(ring.stage), attention.q, shared.q_written[ring.stage],
                                       step * kTiling.rows, place);
      shared.do_free[ring.stage].wait(ring.parity ^ 1);
      arrive_and_expect(shared.do_written[ring.stage], kTiling.query_bytes());
      copy_rows<kTiling.rows, kPanels>(tiles.d_o(ring.stage), attention.d_o, shared.do_written[ring.stage],
                                       step * kTiling.rows, place);
    }
  }
}

// The blocks of keys, for another warp than the one that takes them.
template <HopperBackwardTiling kTiling>
class Works {
 public:
  __device__ __forceinline__ explicit Works(Shared<kTiling>& shared) : shared_(shared) {}
  __device__ __forceinline__ const Work<kTiling>& wait() const {
    shared_.work_written[number_ & 1].wait(number_ >> 1 & 1);
    return shared_.work[number_ & 1];
  }
  // By one thread of the warp, after the others have read all they need.
  __device__ __forceinline__ void release() const { shared_.work_free[number_ & 1].arrive(); }
  __device__ __forceinline__ void advance() { ++number_; }

 private:
  Shared<kTiling>& shared_;
  unsigned number_ = 0;
};

// One warp. Queries beyond the end get weight 0.
template <HopperBackwardTiling kTiling>
__device__ void load_scalars(const AttentionBackward& attention, Shared<kTiling>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  Works<kTiling> works(shared);
  Ring ring;
#pragma unroll 1
  for (;; works.advance()) {
    const Work<kTiling>& work = works.wait();
    if (work.matrix < 0) return;
    const long long first_row = static_cast<long long>(work.matrix) * attention.queries;
#pragma unroll 1
    for (int step = work.last; step >= work.first; --step, ring.advance()) {
      float log_sum_exp[kTiling.rows / kWarpLanes];
      float products[kTiling.rows / kWarpLanes];
#pragma unroll
      for (int i = 0; i < kTiling.rows / kWarpLanes; ++i) {
        const int row = step * kTiling.rows + i * kWarpLanes + lane;
        const bool exists = row < attention.queries;
        log_sum_exp[i] = exists ? attention.log_sum_exp[first_row + row] * kLog2E : INFINITY;
        products[i] = exists ? attention.products[first_row + row] : 0;
      }
      shared.q_free[ring.stage].wait(ring.parity ^ 1);
#pragma unroll
      for (int i = 0; i < kTiling.rows / kWarpLanes; ++i) {
        shared.log_sum_exp[ring.stage][i * kWarpLanes + lane] = log_sum_exp[i];
        shared.products[ring.stage][i * kWarpLanes + lane] = products[i];
      }
      __syncwarp();
      if (lane == 0) shared.q_written[ring.stage].arrive();
    }
    if (lane == 0) works.release();
  }
}

// The semaphore of a block of queries.
template <HopperBackwardTiling kTiling>
__device__ __forceinline__ unsigned* semaphore_of(const AttentionBackward& attention, int matrix, int step) {
  return attention.semaphores + static_cast<long long>(matrix) * ((attention.queries - 1) / kTiling.rows + 1) + step;
}

// The number of blocks of keys that add to a step of queries before this one.
template <HopperBackwardTiling kTiling>
__device__ __forceinline__ int place_of(const AttentionBackward& attention, const Work<kTiling>& work, int step) {
  if constexpr (!has_window(kTiling.scores)) return work.block;
  return work.block - first_visible_block(step * kTiling.rows, attention.window, kKeys);
}

// One thread. Opens the turn of a step when the previous block of keys has added to its sums; end_turns() opens it too.
template <HopperBackwardTiling kTiling>
__device__ void open_turns(const AttentionBackward& attention, Shared<kTiling>& shared) {
  Works<kTiling> works(shared);
  Ring ring;
#pragma unroll 1
  for (;; works.advance()) {
    const Work<kTiling>& work = works.wait();
    if (work.matrix < 0) return;
#pragma unroll 1
    for (int step = work.last; step >= work.first; --step, ring.advance()) {
      shared.added[ring.stage].wait(ring.parity ^ 1);
      const int place = place_of(attention, work, step);
      if (place > 0) {
        wait_for_semaphore(semaphore_of<kTiling>(attention, work.matrix, step), static_cast<unsigned>(place));
      }
      shared.turn[ring.stage].arrive();
    }
    works.release();
  }
}

// One thread. Lets the next block of keys add to the sums of a step, and then opens the turn two steps later: the warps
// that add must not be two phases of `added` ahead.
template <HopperBackwardTiling kTiling>
__device__ void end_turns(const AttentionBackward& attention, Shared<kTiling>& shared) {
  for (SharedBarrier& turn : shared.turn) turn.arrive();
  Works<kTiling> works(shared);
  Ring ring;
#pragma unroll 1
  for (;; works.advance()) {
    const Work<kTiling>& work = works.wait();
    if (work.matrix < 0) return;
#pragma unroll 1
    for (int step = work.last; step >= work.first; --step, ring.advance()) {
      shared.added[ring.stage].wait(ring.parity);
      release_semaphore(semaphore_of<kTiling>(attention, work.matrix, step));
      shared.turn[ring.stage].arrive();
    }
    works.release();
  }
}

}  // namespace ridgepoint::cuda
