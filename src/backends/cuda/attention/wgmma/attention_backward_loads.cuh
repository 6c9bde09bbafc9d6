// The loading warpgroup of attention_backward_wgmma.cu, which draws its warps: blocks of keys, what is in shared
// memory, and copies of tiles. attention_backward_order.cuh has the warps that see to the order of sums.
#pragma once

#include "backends/cuda/attention/wgmma/attention_hopper.cuh"
#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "backends/cuda/attention/common/window.h"

namespace ridgepoint::cuda {

inline constexpr int kGroups = HopperBackwardTiling::kGroups;
inline constexpr int kStages = HopperBackwardTiling::kStages;

// The number of a block of keys and of a part of the heads that share them, and of the head in this part. In shared
// memory, because the loading warps have few registers.
struct NextWork {
  int number = 0, head = 0;
  int heads = 0;              // of the part
  int block = 0, before = 0;  // divided: a block of keys, and the numbers before it

  __device__ __forceinline__ void advance(const AttentionBackward& attention) {
    if (++head < heads) return;
    head = 0;
    number = static_cast<int>(atomicAdd(attention.started, 1U));
  }
};

// A block of keys, for one head of the queries: its steps of queries from `last` down to `first`. Heads whose gradients
// of k and v are added follow one another.
template <HopperBackwardTiling kTiling>
struct Work {
  int block, matrix;  // a matrix of -1: no more blocks of keys
  int first_key;
  int first, last;
  int end;            // the number of steps to the end of this block of keys, of all that this thread block has taken
  bool is_last_head;  // of the part
  bool leaves_sums;   // of dk and dv, in the part `part` of them, and does not write dk and dv
  int part;
  int parts_before;  // undivided: that have added to this part of the sums

  // The next one.
  __device__ __forceinline__ void take(const AttentionBackward& attention, NextWork& next) {
    do {
      next.advance(attention);
      if constexpr (kTiling.divided) {
        place_chunk(attention, next);
      } else {
        place(attention, next);
      }
    } while (matrix == kMissing);
    is_last_head = next.head == next.heads - 1;
  }

 private:
  static constexpr int kMissing = -2;  // the matrix of a number that the last set does not have

  static __device__ __forceinline__ int blocks_of(const AttentionBackward& attention) {
    return (attention.keys - 1) / kTiling.keys + 1;
  }

  __device__ __forceinline__ void place(const AttentionBackward& attention, NextWork& next) {
    const Division set = divide(static_cast<unsigned>(next.number), attention.numbers_of_set);
    const Division within = divide(set.remainder, attention.set);
    const Division of_parts = divide(within.quotient, attention.parts);
    const unsigned first_group = set.quotient * attention.set.value;
    const unsigned group = first_group + within.remainder;
    block = static_cast<int>(of_parts.quotient);
    parts_before = static_cast<int>(of_parts.remainder);
    const int first_head = parts_before * attention.heads_of_part;
    next.heads = min(attention.heads_of_part, attention.summed_heads - first_head);
    leaves_sums = first_head + next.heads < attention.summed_heads;
    part = static_cast<int>(group) * blocks_of(attention) + block;
    matrix = static_cast<int>(group) * attention.summed_heads + first_head + next.head;
    if (group >= attention.groups.value) matrix = first_group >= attention.groups.value ? -1 : kMissing;
    set_steps(attention);
  }

  __device__ __forceinline__ void set_steps(const AttentionBackward& attention) {
    first_key = block * kTiling.keys;
    first = attention.causal ? first_key / kTiling.rows : 0;
    const int last_query = has_window(kTiling.scores)
                               ? last_seeing_query(first_key + kTiling.keys, attention.window, attention.queries)
                               : attention.queries - 1;
    last = last_query / kTiling.rows;
  }

  __device__ __forceinline__ int chunks(const AttentionBackward& attention, int steps) const {
    return static_cast<int>(divide(static_cast<unsigned>(steps - 1), attention.chunk).quotient) + 1;
  }

  __device__ __forceinline__ void place_chunk(const AttentionBackward& attention, NextWork& next) {
    const int groups = static_cast<int>(attention.groups.value);
    for (;; ++next.block) {
      block = next.block;
      matrix = -1;
      if (block == blocks_of(attention)) return;
      set_steps(attention);
      const int count = chunks(attention, last - first + 1);
      if (next.number < next.before + count * groups) {
        const Division within = divide(static_cast<unsigned>(next.number - next.before), attention.groups);
        const auto chunk = static_cast<int>(within.quotient);
        const auto group = static_cast<int>(within.remainder);
        matrix = group * attention.summed_heads + next.head;
        next.heads = attention.summed_heads;
        leaves_sums = count > 1;
        part = (block * groups + group) * chunks(attention, last + 1) + chunk;
        last -= chunk * static_cast<int>(attention.chunk.value);
        first = max(first, last - static_cast<int>(attention.chunk.value) + 1);
        return;
      }
      next.before += count * groups;
    }
  }
};

template <HopperBackwardTiling kTiling>
struct Shared {
  SharedBarrier work_written[kStages], work_free[kStages];
  SharedBarrier keys_copied[kTiling.key_stages], keys_written[kTiling.key_stages], keys_free[kTiling.key_stages];
  SharedBarrier q_written[kStages], q_free[kStages];
  SharedBarrier do_written[kStages], do_free[kStages];
  SharedBarrier turn[kStages], added[kStages];
  SharedBarrier dq_written[kStages], dq_free[kStages];  // where the copy engine adds
  SharedBarrier ds_written[kStages], ds_free[kStages];  // where a third warpgroup multiplies dq
  SharedBarrier weights_written[kStages], weights_free[kStages];  // where warpgroups share keys
  Work<kTiling> work[kStages];
  NextWork next;  // of the thread that loads
  // Of each query: the log-sum-exp to base 2, and sum(do o).
  alignas(16) float log_sum_exp[kStages][kTiling.rows];
  alignas(16) float products[kStages][kTiling.rows];
};

// What follows Shared, at a multiple of 1,024 bytes.
template <HopperBackwardTiling kTiling>
struct SharedTiles {
  std::uint32_t first;
  __device__ __forceinline__ std::uint32_t k(int stage) const { return first + 2 * stage * kTiling.key_bytes(); }
  __device__ __forceinline__ std::uint32_t v(int stage) const { return k(stage) + kTiling.key_bytes(); }
  __device__ __forceinline__ std::uint32_t q(int stage) const {
    return k(kTiling.key_stages) + stage * kTiling.query_bytes();
  }
  __device__ __forceinline__ std::uint32_t d_o(int stage) const { return q(stage + kStages); }
  __device__ __forceinline__ std::uint32_t ds(int stage) const {
    return q(2 * kStages) + stage * kTiling.score_bytes();
  }
  __device__ __forceinline__ std::uint32_t dq(int stage) const { return ds(kStages) + stage * kTiling.sum_bytes(); }
  __device__ __forceinline__ std::uint32_t weights(int stage) const {
    return dq(kStages) + stage * kTiling.weight_bytes();
  }
};

// Takes blocks of keys until there are no more. One thread.
template <HopperBackwardTiling kTiling>
__device__ void load_tiles(const HopperAttentionBackward& attention, const SharedTiles<kTiling>& tiles,
                           Shared<kTiling>& shared) {
  constexpr int kPanels = kTiling.panels();
  int position = 0;  // the number of steps before this one
  shared.next = {};
#pragma unroll 1
  for (int number = 0;; ++number) {
    const Ring works = Ring::at(number);
    shared.work_free[works.stage].wait(works.parity ^ 1);
    Work<kTiling>& work = shared.work[works.stage];
    work.take(attention.rest, shared.next);
    work.end = position + work.last - work.first + 1;
    shared.work_written[works.stage].arrive();
    if (work.matrix < 0) return;
    // Not kept, because registers are few.
    const auto place = [&] { return divide(static_cast<unsigned>(work.matrix), attention.rest.inner_count); };
    const int stage = number % kTiling.key_stages;
    shared.keys_free[stage].wait((number / kTiling.key_stages & 1) ^ 1);
    arrive_and_expect(shared.keys_copied[stage], 2 * kTiling.key_bytes());
    copy_rows<kTiling.keys, kPanels>(tiles.k(stage), attention.k, shared.keys_copied[stage], work.first_key, place());
    copy_rows<kTiling.keys, kPanels>(tiles.v(stage), attention.v, shared.keys_copied[stage], work.first_key, place());
#pragma unroll 1
    for (; position < work.end; ++position) {
      const Ring ring = Ring::at(position);
      const int row = (work.first + work.end - 1 - position) * kTiling.rows;
      shared.q_free[ring.stage].wait(ring.parity ^ 1);
      arrive_and_expect(shared.q_written[ring.stage], kTiling.query_bytes());
      copy_rows<kTiling.rows, kPanels>(tiles.q(ring.stage), attention.q, shared.q_written[ring.stage], row, place());
      shared.do_free[ring.stage].wait(ring.parity ^ 1);
      arrive_and_expect(shared.do_written[ring.stage], kTiling.query_bytes());
      copy_rows<kTiling.rows, kPanels>(tiles.d_o(ring.stage), attention.d_o, shared.do_written[ring.stage], row,
                                       place());
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
  __device__ __forceinline__ int number() const { return static_cast<int>(number_); }

 private:
  Shared<kTiling>& shared_;
  unsigned number_ = 0;
};

// One warp. A masked query would get 0 NaN = NaN in dq. If a key has a NaN, so has the log-sum-exp of every query that
// attends to it, and their gradients are NaN already.
template <class Element, HopperBackwardTiling kTiling>
__device__ __forceinline__ void clear_nan_in_keys(std::uint32_t keys) {
#pragma unroll 1  // the loading warps have few registers
  for (int at = static_cast<int>(threadIdx.x) % kWarpLanes * 16; at < kTiling.key_bytes(); at += kWarpLanes * 16) {
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(keys + at));
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(keys + at), "r"(without_nan<Element>(x.x)),
                 "r"(without_nan<Element>(x.y)), "r"(without_nan<Element>(x.z)), "r"(without_nan<Element>(x.w))
                 : "memory");
  }
  publish_to_tensor_cores();
}

// One warp. Queries beyond the end get weight 0.
template <class Element, HopperBackwardTiling kTiling>
__device__ void load_scalars(const AttentionBackward& attention, const SharedTiles<kTiling>& tiles,
                             Shared<kTiling>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  Works<kTiling> works(shared);
  Ring ring;
#pragma unroll 1
  for (;; works.advance()) {
    const Work<kTiling>& work = works.wait();
    if (work.matrix < 0) return;
    const int stage = works.number() % kTiling.key_stages;
    shared.keys_copied[stage].wait(works.number() / kTiling.key_stages & 1);
    if (attention.causal) clear_nan_in_keys<Element, kTiling>(tiles.k(stage));
    __syncwarp();
    if (lane == 0) shared.keys_written[stage].arrive();
    const int first_row = work.matrix * attention.queries;
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

}  // namespace ridgepoint::cuda
