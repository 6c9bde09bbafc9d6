// Warpgroups of keys in attention_backward_wgmma.cu, which draws them, that share the keys of a block: one has s, p and
// dv, the other dp, ds and dk. The first leaves p for the second in shared memory.
#pragma once

#include "backends/cuda/attention/wgmma/attention_backward_finish.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_keys.cuh"

namespace ridgepoint::cuda {

template <class Element, HopperBackwardTiling kTiling, bool kHasValues>
class SharedKeyGroup : KeyProducts<Element, kTiling> {
  using Products = KeyProducts<Element, kTiling>;
  using Step = ScoresOfStep<Element, kTiling>;
  using Step::attention_, Step::tiles_, Step::shared_, Step::step_, Step::number_;
  using Step::kRows, Step::kRowSteps, Step::work, Step::key_in_block;
  using Products::kWidth, Products::kColumns, Products::release, Products::keep_order, Products::add_gradients;
  static constexpr int kPart = 64;  // columns that are written at a time
  static_assert(kWidth == 2 * kColumns);

 public:
  __device__ SharedKeyGroup(const HopperAttentionBackward& attention, const SharedTiles<kTiling>& tiles,
                            Shared<kTiling>& shared)
      : Products(attention, tiles, shared, kHasValues ? 0 : 1) {}

  __device__ __forceinline__ void compute() {
    clear_gradients();
#pragma unroll 1
    for (; Products::begin_work(); ++number_) {
      take_steps();
      release(shared_.keys_free[number_ % kTiling.key_stages]);
      if (work().is_last_head) {
        end_block();
        clear_gradients();
      }
      __syncwarp();
      release(shared_.work_free[number_ & 1]);
    }
  }

 private:
  __device__ __forceinline__ void clear_gradients() {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) sums_[0][i] = sums_[1][i] = 0;
  }

  __device__ __forceinline__ void take_steps() {
    float scores[kRows / 2];
    begin(scores);
#pragma unroll 1
    for (;;) {
      const int stage = step_ & 1;
      if constexpr (kHasValues) {
        weigh(scores);
      } else {
        differentiate(scores);
      }
      ++step_;
      if (step_ >= work().end) break;
      begin(scores);
      wait_for_products<1>();
      release(rows_free(stage));
    }
    wait_for_products<0>();
    release(rows_free((step_ - 1) & 1));
  }

  __device__ __forceinline__ void begin(float (&scores)[kRows / 2]) const {
    if constexpr (kHasValues) {
      Products::begin_scores(scores);
    } else {
      Products::begin_weight_gradients(scores);
    }
  }

  // Of the rows that the gradients of a step are a product with.
  __device__ __forceinline__ SharedBarrier& rows_free(int stage) const {
    return kHasValues ? shared_.do_free[stage] : shared_.q_free[stage];
  }

  // From s, which is under way, to dv, which still is then.
  __device__ __forceinline__ void weigh(float (&scores)[kRows / 2]) {
    Step::forget();
    const Ring ring = Ring::at(step_);
    unsigned packed[kRowSteps][4];
    wait_for_products<0>();
    keep_order(scores);
    if constexpr (has_soft_cap(kTiling.scores)) {
      unsigned factors[kRowSteps][4];
      Step::compute_capped_weights(ring.stage, scores, packed);
      Step::pack_operands(scores, factors);
      leave_weights(factors, ring);
    } else {
      Step::compute_weights(ring.stage, scores);
      Step::mask_if_needed(scores, 0);
      Step::pack_operands(scores, packed);
      leave_weights(packed, ring);
    }
    release(shared_.q_free[ring.stage]);
    shared_.do_written[ring.stage].wait(ring.parity);
    begin_products();
    add_gradients(sums_[0], packed, tiles_.d_o(ring.stage));
    add_gradients(sums_[1], packed, tiles_.d_o(ring.stage), kColumns);
    end_products();
  }

  // From dp, which is under way, to dk, which still is then.
  __device__ __forceinline__ void differentiate(float (&scores)[kRows / 2]) {
    Step::forget();
    const Ring ring = Ring::at(step_);
    unsigned packed[kRowSteps][4];
    wait_for_products<0>();
    keep_order(scores);
    release(shared_.do_free[ring.stage]);
    shared_.q_written[ring.stage].wait(ring.parity);
    take_weights(packed, ring);
    shared_.ds_free[ring.stage].wait(ring.parity ^ 1);
    Step::make_score_gradients(scores, ring.stage, packed);
    __syncwarp();
    release(shared_.ds_written[ring.stage]);
    begin_products();
    add_gradients(sums_[0], packed, tiles_.q(ring.stage));
    add_gradients(sums_[1], packed, tiles_.q(ring.stage), kColumns);
    end_products();
  }

  // What dp is multiplied by, in the order of the registers, which is the same in both warpgroups.
  __device__ __forceinline__ std::uint32_t weights(int stage) const {
    return tiles_.weights(stage) + thread_index() % kWarpgroupThreads * 16;
  }
  __device__ __forceinline__ void leave_weights(const unsigned (&packed)[kRowSteps][4], const Ring& ring) const {
    shared_.weights_free[ring.stage].wait(ring.parity ^ 1);
    const std::uint32_t to = weights(ring.stage);
#pragma unroll
    for (int i = 0; i < kRowSteps; ++i) {
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * (16 * kWarpgroupThreads)),
                   "r"(packed[i][0]), "r"(packed[i][1]), "r"(packed[i][2]), "r"(packed[i][3])
                   : "memory");
    }
    __syncwarp();
    release(shared_.weights_written[ring.stage]);
  }
  __device__ __forceinline__ void take_weights(unsigned (&packed)[kRowSteps][4], const Ring& ring) const {
    shared_.weights_written[ring.stage].wait(ring.parity);
    const std::uint32_t from = weights(ring.stage);
#pragma unroll
    for (int i = 0; i < kRowSteps; ++i) {
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(packed[i][0]), "=r"(packed[i][1]), "=r"(packed[i][2]), "=r"(packed[i][3])
                   : "r"(from + i * (16 * kWarpgroupThreads))
                   : "memory");
    }
    __syncwarp();
    release(shared_.weights_free[ring.stage]);
  }

  __device__ __forceinline__ void end_block() const {
    const auto write_own = [&] {
      write_gradients([&](float(&part)[kPart / 2], int number) {
#pragma unroll
        for (int i = 0; i < kPart / 2; ++i) part[i] = sums_[number / 2][number % 2 * (kPart / 2) + i];
      });
    };
    if constexpr (kTiling.adds_parts()) {
      const auto visit = [&](const auto& add) {
        add(Products::key_sums(kNumber), sums_[0]);
        add(Products::key_sums(kNumber) + 64 * kColumns, sums_[1]);
      };
      Products::end_part(visit, write_own, [&] {
        write_gradients([&](float(&part)[kPart / 2], int number) {
          read_sums(Products::key_sums(kNumber) + number * (64 * kPart), part);
        });
      });
    } else {
      write_own();
    }
  }

  // dv or dk; `get` gives the sums of 64 columns.
  template <class Get>
  __device__ __forceinline__ void write_gradients(const Get& get) const {
    const int key = work().first_key + key_in_block(static_cast<int>(threadIdx.x));
#pragma unroll
    for (int i = 0; i < kWidth / kPart; ++i) {
      float part[kPart / 2];
      get(part, i);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if constexpr (kHasValues) {
          Products::template write<kPart>(attention_.dv, part, 1, half, key + 8 * half, i * kPart);
        } else {
          TurnBack<kPart, Element> turn_back;
          turn_back.load(attention_, key + 8 * half, i * kPart, key + 8 * half < attention_.keys);
          Products::template write<kPart>(attention_.dk, part, attention_.scale, half, key + 8 * half, i * kPart,
                                          turn_back);
        }
      }
    }
  }

  static constexpr int kNumber = kHasValues ? 0 : 1;
  float sums_[2][kColumns / 2];
};

}  // namespace ridgepoint::cuda
