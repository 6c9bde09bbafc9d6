// The gradient of q in attention_backward_wgmma.cu, which draws it: its products, and what becomes of them.
#pragma once

#include "backends/cuda/device/warpgroup_mma.cuh"
#include "backends/cuda/device/warpgroup_rows.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_finish.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_loads.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_order.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_scores.cuh"
#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "backends/cuda/attention/common/window.h"

namespace ridgepoint::cuda {

// A thread's sums of a tile of 64 rows, in the order of its registers: `at` is the place of its first four.
template <int kCount>
__device__ __forceinline__ void store_sums(float* at, const float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i) {
    *reinterpret_cast<float4*>(at + i * (4 * kWarpgroupThreads)) = {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2],
                                                                    sums[4 * i + 3]};
  }
}
template <int kCount>
__device__ __forceinline__ void add_to_sums(float* at, const float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at + i * (4 * kWarpgroupThreads)),
                 "f"(sums[4 * i]), "f"(sums[4 * i + 1]), "f"(sums[4 * i + 2]), "f"(sums[4 * i + 3])
                 : "memory");
  }
}
template <int kCount>
__device__ __forceinline__ void read_sums(const float* at, float (&sums)[kCount], bool exist = true) {
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i) {
    float4 x = {0, 0, 0, 0};
    if (exist) x = __ldcg(reinterpret_cast<const float4*>(at + i * (4 * kWarpgroupThreads)));
    sums[4 * i] = x.x;
    sums[4 * i + 1] = x.y;
    sums[4 * i + 2] = x.z;
    sums[4 * i + 3] = x.w;
  }
}

// dq of a step, for 64 queries and 64 columns at a time: half number `group_` of 128 queries, or panel `group_` of the
// columns.
template <class Element, HopperBackwardTiling kTiling>
class QuerySums : protected ScoresOfStep<Element, kTiling> {
 protected:
  using Step = ScoresOfStep<Element, kTiling>;
  using Step::attention_, Step::tiles_, Step::shared_, Step::group_, Step::step_, Step::number_;
  using Step::kRows, Step::kKeyPanel;
  using Step::work, Step::query_block, Step::first_query, Step::key_in_block;
  static constexpr int kWidth = kTiling.width;
  static constexpr int kTiles = kTiling.panels() * (kRows / 64);
  static constexpr int kSumsOfGroup = kWarpgroupThreads * kSumColumns / 8;
  using Sums = WarpgroupProduct<Element, kSumColumns>;

  using Step::Step;

  // The keys; the values follow. Computed where it is used, because registers are scarce.
  __device__ __forceinline__ std::uint32_t k() const {
    int number = number_;
    asm volatile("" : "+r"(number));
    return tiles_.k(number % kTiling.key_stages);
  }

  __device__ __forceinline__ void release(SharedBarrier& barrier) const {
    if (threadIdx.x % kWarpLanes == 0) barrier.arrive();
  }

  // Waits for work number `number_` and its keys. Whether there is any.
  __device__ __forceinline__ bool begin_work() const {
    const Ring ring = Ring::at(number_);
    shared_.work_written[ring.stage].wait(ring.parity);
    if (work().matrix < 0) return false;
    shared_.keys_written[number_ % kTiling.key_stages].wait(number_ / kTiling.key_stages & 1);
    return true;
  }

  // dq = ds k
  __device__ __forceinline__ void multiply_score_gradients(float (&sums)[kSumColumns / 2], int stage) const {
    const std::uint64_t a = tile_descriptor(tiles_.ds(stage) + (kRows == 128 ? group_ * kKeyPanel : 0), 0);
    const std::uint64_t b = tile_descriptor(k() + (kRows == 128 ? 0 : group_ * kKeyPanel), 0);
#pragma unroll
    for (int step = 0; step < kTiling.keys / 16; ++step) {
      Sums::template add<Contiguous::other, Contiguous::other>(sums, a + step * kDescriptorStep<false>,
                                                               b + step * kDescriptorStep<false>, step > 0);
    }
  }

  // Those of dq that this thread adds to.
  __device__ __forceinline__ float* sums_of_step() const {
    const auto tile = static_cast<unsigned>(sums_of(attention_, work(), query_block()) * kTiles + group_);
    return attention_.dq_sums + 4 * static_cast<std::size_t>(tile * kSumsOfGroup + thread_index() % kWarpgroupThreads);
  }
  __device__ __forceinline__ bool adds_first() const {
    if constexpr (kTiling.divided) return work().block < attention_.slices;
    if constexpr (!has_window(kTiling.scores)) return work().block <= 0;
    return is_first_visible_block(work().first_key, first_query(), attention_.window);
  }
  __device__ __forceinline__ bool adds_last() const {
    const int next_key = work().first_key + kTiling.keys;
    return next_key >= attention_.keys || (attention_.causal && next_key >= first_query() + kRows);
  }

  // Adds dq after that of the previous block, in the order of its registers.
  __device__ __forceinline__ void add_tile(const float (&dq)[kSumColumns / 2]) const {
    float* sums = sums_of_step();
    if (!adds_first()) {
      add_to_sums(sums, dq);
    } else {
      store_sums(sums, dq);
    }
  }

  // Adds dq, or leaves it for the copy engine to add.
  __device__ __forceinline__ void add_query_gradients(const float (&dq)[kSumColumns / 2], const Ring& ring) const {
    if constexpr (kTiling.copies_sums) {
      leave_query_gradients(dq, ring);
    } else {
      shared_.turn[ring.stage].wait(ring.parity);
      add_tile(dq);
    }
  }

  // This warpgroup's part of dq, in the order of its registers, for the copy engine to add.
  __device__ __forceinline__ void leave_query_gradients(const float (&dq)[kSumColumns / 2], const Ring& ring) const {
    static_assert(!kTiling.copies_sums || kTiles == kGroups);
    const int thread = group_ * kSumsOfGroup + thread_index() % kWarpgroupThreads;
    const std::uint32_t to = tiles_.dq(ring.stage) + thread * 16;
    shared_.dq_free[ring.stage].wait(ring.parity ^ 1);
#pragma unroll
    for (int i = 0; i < kSumColumns / 8; ++i) {
      asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * (16 * kWarpgroupThreads)), "f"(dq[4 * i]),
                   "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                   : "memory");
    }
    publish_to_tensor_cores();
    __syncwarp();
    release(shared_.dq_written[ring.stage]);
  }

  // The last block of keys that adds to dq writes it. It reads what the previous ones have added while its products are
  // under way, and calls `read` when these have ended.
  template <class Read>
  __device__ __forceinline__ void finish_query_gradients(float (&dq)[kSumColumns / 2], const Ring& ring,
                                                         const Read& read) const {
    static_assert(!kTiling.finishes() || kTiles == kGroups);
    const int row = first_query() + (kRows == 128 ? group_ * 64 : 0) + key_in_block(thread_index() % kWarpgroupThreads);
    const int column = kRows == 128 ? 0 : group_ * kSumColumns;
    // For the cosines and sines of both rows beside the sums; where others multiply meanwhile there is time to load.
    constexpr bool kHasRoom = kWidth <= 96 && !kTiling.dq_apart;
    TurnBack<kSumColumns, Element> turn_back[2];
    if constexpr (!kTiling.dq_apart) turn_back[0].load(attention_, row, column, row < attention_.queries);
    if constexpr (kHasRoom) turn_back[1].load(attention_, row + 8, column, row + 8 < attention_.queries);
    shared_.turn[ring.stage].wait(ring.parity);
    if constexpr (kTiling.dq_apart) {
      wait_for_products<0>();
      read();
      add_sums(dq);
    } else {
      float sums[kSumColumns / 2];
      read_sums(sums_of_step(), sums, !adds_first());
      wait_for_products<0>();
      read();
#pragma unroll
      for (int i = 0; i < kSumColumns / 2; ++i) dq[i] += sums[i];
    }
    auto* rows = first_row<Element>(attention_.dq, attention_.inner_count, work().matrix) + column;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool exists = row + 8 * half < attention_.queries;
      if (!kHasRoom && (kTiling.dq_apart || half == 1))
        turn_back[half].load(attention_, row + 8 * half, column, exists);
      write_row<kSumColumns>(rows + rows_apart(row + 8 * half, attention_.dq.row), dq, attention_.scale, half,
                             exists ? attention_.width - column : 0, turn_back[half]);
    }
  }

  // A few at a time, where a warpgroup has few registers.
  __device__ __forceinline__ void add_sums(float (&dq)[kSumColumns / 2]) const {
    if (adds_first()) return;
    const float* sums = sums_of_step();
#pragma unroll
    for (int i = 0; i < kSumColumns / 8; ++i) {
      const float4 x = __ldcg(reinterpret_cast<const float4*>(sums + i * (4 * kWarpgroupThreads)));
      dq[4 * i] += x.x;
      dq[4 * i + 1] += x.y;
      dq[4 * i + 2] += x.z;
      dq[4 * i + 3] += x.w;
      if (i % 4 == 3) asm volatile("" : "+f"(dq[4 * i + 3])::"memory");
    }
  }
};

// The third warpgroup, which multiplies and adds dq of all steps where those of keys do not.
template <class Element, HopperBackwardTiling kTiling>
class QueryGroup : QuerySums<Element, kTiling> {
  using Dq = QuerySums<Element, kTiling>;
  using Dq::kTiles, Dq::shared_, Dq::group_, Dq::step_, Dq::number_, Dq::work, Dq::release;
 public:
  __device__ QueryGroup(const HopperAttentionBackward& attention, const SharedTiles<kTiling>& tiles,
                        Shared<kTiling>& shared)
      : Dq(attention, tiles, shared, 0) {}

  __device__ __forceinline__ void compute() {
#pragma unroll 1
    for (; Dq::begin_work(); ++number_) {
#pragma unroll 1
      for (; step_ < work().end; ++step_) take_step();
      __syncwarp();
      release(shared_.keys_free[number_ % kTiling.key_stages]);
      release(shared_.work_free[number_ & 1]);
    }
  }

 private:
  __device__ __forceinline__ void take_step() {
    const Ring ring = Ring::at(step_);
    shared_.ds_written[ring.stage].wait(ring.parity);
#pragma unroll 1
    for (group_ = 0; group_ < kTiles; ++group_) {
      float dq[kSumColumns / 2];
      begin_products();
      Dq::multiply_score_gradients(dq, ring.stage);
      end_products();
      const auto read = [&] {
        if (group_ == kTiles - 1) release(shared_.ds_free[ring.stage]);
      };
      if (kTiling.finishes() && Dq::adds_last()) {
        Dq::finish_query_gradients(dq, ring, read);
      } else {
        wait_for_products<0>();
        read();
        Dq::add_query_gradients(dq, ring);
      }
      if constexpr (!kTiling.copies_sums) {
        __syncwarp();
        release(shared_.added[ring.stage]);
      }
    }
  }
};

}  // namespace ridgepoint::cuda
