// What warpgroups of keys in attention_backward_wgmma.cu, which draws them, have in common: their products, and what
// becomes of dk and dv.
#pragma once

#include "backends/cuda/device/semaphore.cuh"
#include "backends/cuda/device/warpgroup_mma.cuh"
#include "backends/cuda/device/warpgroup_rows.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_loads.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_queries.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_scores.cuh"
#include "backends/cuda/attention/wgmma/hopper_variants.h"

namespace ridgepoint::cuda {

template <class Element, HopperBackwardTiling kTiling>
class KeyProducts : protected QuerySums<Element, kTiling> {
 protected:
  using Dq = QuerySums<Element, kTiling>;
  using Step = ScoresOfStep<Element, kTiling>;
  using Dq::kWidth, Dq::k, Dq::release;
  using Step::attention_, Step::tiles_, Step::shared_, Step::group_, Step::step_, Step::number_;
  using Step::kRows, Step::kRowSteps, Step::kKeyPanel, Step::kSharesKeys;
  using Step::work, Step::key_in_block;
  static constexpr int kQueryPanel = kRows * kLineBytes;  // bytes of 64 columns of q and do
  // Columns of dk and dv that one product has: a kernel of 512 threads may not have instructions with more sums.
  static constexpr int kColumns = kWidth < 128 ? kWidth : 128;
  using Scores = WarpgroupProduct<Element, kRows>;
  using Gradients = WarpgroupProduct<Element, kColumns>;

  using Dq::Dq;

  // s = k q^T, and dp = v do^T.
  __device__ __forceinline__ void begin_scores(float (&scores)[kRows / 2]) const {
    const Ring ring = Ring::at(step_);
    shared_.q_written[ring.stage].wait(ring.parity);
    begin_products();
    multiply_keys(scores, k(), tiles_.q(ring.stage));
    end_products();
  }
  __device__ __forceinline__ void begin_weight_gradients(float (&dp)[kRows / 2]) const {
    const Ring ring = Ring::at(step_);
    shared_.do_written[ring.stage].wait(ring.parity);
    begin_products();
    multiply_keys(dp, k() + kTiling.key_bytes(), tiles_.d_o(ring.stage));
    end_products();
  }

  // What reads the sums of a product stays behind the wait for it.
  static __device__ __forceinline__ void keep_order(float (&sums)[kRows / 2]) {
#pragma unroll
    for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
  }

  // sums = keys rows^T for this warpgroup's 64 keys.
  __device__ __forceinline__ void multiply_keys(float (&sums)[kRows / 2], std::uint32_t keys,
                                                std::uint32_t rows) const {
    const std::uint64_t a = tile_descriptor(keys + (kSharesKeys ? 0 : group_ * (64 * kLineBytes)), 0);
    const std::uint64_t b = tile_descriptor(rows, 0);
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step) {
      const int within = step % 4 * kDescriptorStep<true>;
      Scores::template add<Contiguous::k, Contiguous::k>(sums, a + step / 4 * (kKeyPanel >> 4) + within,
                                                         b + step / 4 * (kQueryPanel >> 4) + within, step > 0);
    }
  }

  // dv += p^T do or dk += ds^T q, for columns from `column` on.
  __device__ __forceinline__ void add_gradients(float (&sums)[kColumns / 2], const unsigned (&weights)[kRowSteps][4],
                                                std::uint32_t rows, int column = 0) const {
    const std::uint64_t b = tile_descriptor(rows + column / kLineElements * kQueryPanel, kQueryPanel);
#pragma unroll
    for (int step = 0; step < kRowSteps; ++step) {
      Gradients::template add<Contiguous::other>(sums, weights[step], b + step * kDescriptorStep<false>, true);
    }
  }

  // Sums of dv, number 0, or dk, number 1, of a part of the steps or of the heads, in the order of the registers.
  __device__ __forceinline__ float* key_sums(int number) const {
    const int tile = (2 * work().part + number) * (kTiling.keys / 64) + (kSharesKeys ? 0 : group_);
    return attention_.key_sums + static_cast<std::size_t>(tile) * (64 * kWidth) +
           4 * (threadIdx.x % kWarpgroupThreads);
  }

  // The parts of the heads that share k and v add up in memory in their order, each warp its rows. The accumulators of
  // products are only read: to add to them takes registers that the loop over steps has not. `visit` calls a function
  // with places in memory and the sums that this warpgroup has for them; `write` writes these as results, `write_sums`
  // what is in memory.
  template <class Visit, class Write, class WriteSums>
  __device__ __forceinline__ void end_part(const Visit& visit, const Write& write, const WriteSums& write_sums) const {
    const int parts = work().parts_before;
    if (parts == 0 && !work().leaves_sums) return write();
    if (parts == 0) {
      visit([](float* at, const auto& sums) { store_sums(at, sums); });
    } else {
      if (threadIdx.x % kWarpLanes == 0) wait_for_semaphore(key_semaphore(), static_cast<unsigned>(parts));
      __syncwarp();
      visit([](float* at, const auto& sums) { add_to_sums(at, sums); });
    }
    if (work().leaves_sums) {
      __syncwarp();
      if (threadIdx.x % kWarpLanes == 0) release_semaphore(key_semaphore());
    } else {
      __threadfence();
      write_sums();
    }
  }

  __device__ __forceinline__ unsigned* key_semaphore() const {
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpLanes;
    return attention_.key_semaphores + (work().part * kGroups + group_) * kWarpsOfGroup + warp;
  }

  // Some columns, from `column` on, of a row of a result.
  template <int kCount, class Change = Unchanged>
  __device__ __forceinline__ void write(const AttentionResult& result, const float (&sums)[kCount / 2], float factor,
                                        int half, int key, int column, const Change& change = {}) const {
    auto* matrix = first_row_of_group<Element>(result, attention_.inner_count, work().matrix) + column;
    write_row<kCount>(matrix + rows_apart(key, result.row), sums, factor, half,
                        key < attention_.keys ? attention_.width - column : 0, change);
  }
};

}  // namespace ridgepoint::cuda
