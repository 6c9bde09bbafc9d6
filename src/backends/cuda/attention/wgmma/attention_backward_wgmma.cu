// The backward of flash attention for bf16 or fp16 operands on Hopper, after the design of FlashAttention-3 (Shah et
// al. 2024); the arithmetic is that of attention_backward.cu. Head sizes up to `width`, a multiple of 8.
//
//   load warp 0    k v | q(m) do(m) | q(m-1) do(m-1) | ... | k v of the next block of keys | ...
//                                                                copy engine -> shared memory, q and do in two stages
//   load warp 1          k without NaN where a mask may hide one; log-sum-exp and sum(do o) of each query
//   load warp 2          waits until the previous block of keys has added its dq(m); opens `turn`
//   load warp 3          waits for `added`; lets the next block of keys add
//   warpgroup 0    s = k q^T   dp = v do^T        dv += p do        dq = ds k    dk += ds q
//                              p = exp(s - lse)   ds = p (dp - sum)              dq -> sums in global memory
//   warpgroup 1    the same for its own 64 keys, and for the other half of dq
//
// Heads of 65 to 128 columns, but for *_short_* and *_divided_*: warpgroups leave dq in shared memory, and the copy
// engine adds it to the sums, so that no warpgroup waits for a turn or for its additions to be on their way. Load warps
// 2 and 3 see to every other step each, because an addition takes longer than a step until it has ended.
//
// The upper line of a warpgroup runs on the tensor cores, what stands below it at the same time. Before dq, ds goes to
// shared memory and both warpgroups meet (barrier 1).
//
// Heads of up to 128 columns, but for those with a soft cap and *_short_* of more than 64 columns: a third warpgroup
// multiplies dq and adds it, or leaves it for the copy engine, so the others need not meet, and have registers for the
// scores of the next step.
//
//   warpgroup 0    | dp = v do^T   dv += p do               dk += ds q   s = k q^T of the next step |
//                    p of s before (a turn), ds after them
//   warpgroup 1    the same, half a step later: one warpgroup at a time computes exponentials (barriers 2 and 3)
//   warpgroup 2    dq = ds k of all 128 keys when `ds_written`; then `ds_free`
//
// p is rounded before ds is computed of it, so that dp has the registers of s.
//
// Rows of s, p, dp and ds are keys, so p and ds are first operands of dv and dk as they stand in registers. `written`
// barriers count the copies of a stage, `free` barriers the warps that have read it.
// A thread block takes blocks of 128 keys from a counter, so that it loads the next one while it writes dk and dv. For
// each it loops over the queries from the last ones to the first ones that attend to the keys. Blocks of keys add to
// the sums of dq in their order, so results are bit for bit reproducible: one follows behind the previous one, and only
// waits for blocks with a smaller number, which have been taken before. Load warps 2 and 3 take the latency of global
// memory that this order costs. Heads are numbered in sets, whose operands and sums stay in the second-level cache
// (hopper_division.h).
//
// Heads that share k and v follow one another in a thread block, which keeps dk and dv. Where that would take longer
// than a multiprocessor has work, they come in parts: each adds to the sums of the part before, in memory, when its
// semaphores say so, and the last one writes dk and dv.
//
// Heads of more than 128 columns: blocks of 64 keys. Both warpgroups compute all of s and p and of dp and ds, and have
// half of the columns of dk, dv and dq each, because all columns need more registers than there are.
// *_short_*: the last block of keys that adds to a block of queries reads the sums of the others and writes dq.
// *_divided_*: for few heads. A thread block takes a chunk of the steps of a block of keys, and leaves sums of dk and
// dv; blocks of keys add to several slices of the sums of dq. *_add_parts_* adds them, each in a fixed order.
// attention_backward_hopper_prepare_*: attention_products.cuh
// attention_backward_hopper_*: grid (at most one block for each multiprocessor), block (384), shared memory
// backward_shared_bytes()
// attention_backward_hopper_finish_*, *_add_parts_*: attention_backward_finish.cuh, block (128)
#include "backends/cuda/device/warpgroup_mma.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_finish.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_loads.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_order.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_queries.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_scores.cuh"
#include "backends/cuda/attention/wgmma/attention_hopper.cuh"
#include "backends/cuda/attention/common/attention_products.cuh"
#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "backends/cuda/attention/common/window.h"

namespace ridgepoint::cuda {
namespace {

// A warpgroup with 64 keys of the block.
template <class Element, HopperBackwardTiling kTiling>
class KeyGroup : QuerySums<Element, kTiling> {
  using Dq = QuerySums<Element, kTiling>;
  using Step = ScoresOfStep<Element, kTiling>;
  using Dq::kWidth, Dq::kSumPanels, Dq::k, Dq::release;
  using Step::attention_, Step::tiles_, Step::shared_, Step::group_, Step::step_, Step::number_;
  using Step::kRows, Step::kRowSteps, Step::kKeyPanel, Step::kSharesKeys;
  using Step::work, Step::key_in_block;
  static constexpr int kQueryPanel = kRows * kLineBytes;  // bytes of 64 columns of q and do
  static constexpr int kColumns = kTiling.columns();      // of dk and dv, that a warpgroup has
  using Scores = WarpgroupProduct<Element, kRows>;
  using Gradients = WarpgroupProduct<Element, kColumns>;

 public:
  __device__ KeyGroup(const HopperAttentionBackward& attention, const SharedTiles<kTiling>& tiles,
                      Shared<kTiling>& shared, int group)
      : Dq(attention, tiles, shared, group) {}

  __device__ __forceinline__ void compute() {
    clear_gradients();
    if (kTiling.dq_apart && group_ == 1) pass_turn();
#pragma unroll 1
    for (; Dq::begin_work(); ++number_) {
      differentiate();
      release(shared_.work_free[number_ & 1]);
    }
  }

 private:
  __device__ __forceinline__ void differentiate() {
    take_steps();
    release(shared_.keys_free[number_ % kTiling.key_stages]);
    if (!work().is_last_head) return;
    if constexpr (kTiling.adds_parts()) {
      end_part();
    } else if (kTiling.divided && work().leaves_sums) {
      store_sums(key_sums(0), dv_);
      store_sums(key_sums(1), dk_);
    } else {
      write_key_gradients();
    }
    clear_gradients();
  }

  __device__ __forceinline__ void clear_gradients() {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) dv_[i] = dk_[i] = 0;
  }

  __device__ __forceinline__ void take_steps() {
    if constexpr (kTiling.dq_apart) {
      float scores[kRows / 2];
      begin_scores(scores);
#pragma unroll 1
      for (;;) {
        const int stage = step_ & 1;
        take_step_apart(scores);
        ++step_;
        if (step_ >= work().end) break;
        begin_scores(scores);
        wait_for_products<1>();
        release(shared_.q_free[stage]);
      }
      wait_for_products<0>();
      release(shared_.q_free[(step_ - 1) & 1]);
    } else {
      bool has_next;
#pragma unroll 1
      do {
        has_next = take_step();
        ++step_;
      } while (has_next);
    }
  }

  __device__ __forceinline__ void begin_scores(float (&scores)[kRows / 2]) const {
    const Ring ring = Ring::at(step_);
    shared_.q_written[ring.stage].wait(ring.parity);
    begin_products();
    multiply_keys(scores, k(), tiles_.q(ring.stage));
    end_products();
  }

  // From s, which is under way, to dk, which still is then. dp takes the registers of s, and ds those of the weights,
  // which are rounded before: with them there are two sums of scores fewer to hold, and no other warpgroup to meet.
  __device__ __forceinline__ void take_step_apart(float (&scores)[kRows / 2]) {
    // So that nothing that follows from these is computed before the loop and kept in registers.
    asm volatile("" : "+r"(tiles_.first), "+r"(group_));
    const Ring ring = Ring::at(step_);
    unsigned packed[kRowSteps][4];
    wait_for_products<0>();
    keep_order(scores);
    take_turn();
    Step::compute_weights(ring.stage, scores);
    Step::mask_if_needed(scores, 0);
    Step::pack_operands(scores, packed);
    pass_turn();
    shared_.do_written[ring.stage].wait(ring.parity);
    begin_products();
    multiply_keys(scores, k() + kTiling.key_bytes(), tiles_.d_o(ring.stage));
    end_products();
    begin_products();
    add_gradients(dv_, packed, tiles_.d_o(ring.stage));
    end_products();
    wait_for_products<0>();
    keep_order(scores);
    release(shared_.do_free[ring.stage]);
    shared_.ds_free[ring.stage].wait(ring.parity ^ 1);
    Step::make_score_gradients(scores, ring.stage, packed);
    __syncwarp();
    release(shared_.ds_written[ring.stage]);
    begin_products();
    add_gradients(dk_, packed, tiles_.q(ring.stage));
    end_products();
  }

  // Warpgroups of keys compute exponentials in turn, so that the products of one are beside those of the other.
  __device__ __forceinline__ void take_turn() const { meet(2 + group_, kGroups * kWarpgroupThreads); }
  __device__ __forceinline__ void pass_turn() const {
    asm volatile("bar.arrive %0, %1;" ::"r"(3 - group_), "n"(kGroups * kWarpgroupThreads) : "memory");
  }

  // What reads the sums of a product stays behind the wait for it.
  static __device__ __forceinline__ void keep_order(float (&sums)[kRows / 2]) {
#pragma unroll
    for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
  }

  // Whether another step follows.
  __device__ __forceinline__ bool take_step() {
    const Ring ring = Ring::at(step_);
    float p[kRows / 2], ds[kRows / 2], dq[kSumColumns / 2];
    unsigned packed_p[kRowSteps][4], packed_ds[kRowSteps][4];
    shared_.q_written[ring.stage].wait(ring.parity);
    begin_products();
    multiply_keys(p, k(), tiles_.q(ring.stage));
    end_products();
    shared_.do_written[ring.stage].wait(ring.parity);
    begin_products();
    multiply_keys(ds, k() + kTiling.key_bytes(), tiles_.d_o(ring.stage));
    end_products();
    wait_for_products<1>();
    if constexpr (has_soft_cap(kTiling.scores)) {
      Step::compute_capped_weights(ring.stage, p, packed_p);
    } else {
      Step::compute_weights(ring.stage, p);
      Step::mask_if_needed(p, 0);
      Step::pack_operands(p, packed_p);
    }
    begin_products();
    add_gradients(dv_, packed_p, tiles_.d_o(ring.stage));
    end_products();
    wait_for_products<1>();
    Step::compute_score_gradients(p, ring.stage, ds);
    Step::pack_operands(ds, packed_ds);
    Step::store_score_gradients(packed_ds, ring.stage);
    meet(1, kGroups * kWarpgroupThreads);  // both have stored theirs, and have read those of the previous step
    begin_products();
    Dq::multiply_score_gradients(dq, ring.stage, 0);
    end_products();
    begin_products();
    add_gradients(dk_, packed_ds, tiles_.q(ring.stage));
    end_products();
    if (kTiling.finishes() && Dq::adds_last()) {
      Dq::finish_query_gradients(dq, ring, [&] {
        release(shared_.do_free[ring.stage]);
        release(shared_.q_free[ring.stage]);
      });
    } else {
      wait_for_products<1>();
      release(shared_.do_free[ring.stage]);
      Dq::add_query_gradients(dq, ring);
      if constexpr (kSumPanels > 1) {
        begin_products();
        Dq::multiply_score_gradients(dq, ring.stage, 1);
        end_products();
      }
      wait_for_products<0>();
      release(shared_.q_free[ring.stage]);
      if constexpr (kSumPanels > 1) Dq::add_panel(dq, 1);
    }
    if constexpr (!kTiling.copies_sums) {
      __syncwarp();
      release(shared_.added[ring.stage]);
    }
    const bool has_next = step_ + 1 < work().end;
    return has_next;
  }

  // sums = keys rows^T for this warpgroup's 64 keys: k q^T or v do^T.
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

  // dv += p^T do or dk += ds^T q.
  __device__ __forceinline__ void add_gradients(float (&sums)[kColumns / 2], const unsigned (&weights)[kRowSteps][4],
                                                std::uint32_t rows) const {
    const std::uint64_t b =
        tile_descriptor(rows + (kSharesKeys ? group_ * (kColumns / kLineElements * kQueryPanel) : 0), kQueryPanel);
#pragma unroll
    for (int step = 0; step < kRowSteps; ++step) {
      Gradients::template add<Contiguous::other>(sums, weights[step], b + step * kDescriptorStep<false>, true);
    }
  }

  // Sums of dv, number 0, or dk, number 1, of a part of the steps or of the heads, in the order of the registers.
  __device__ __forceinline__ float* key_sums(int number) const {
    const auto at = static_cast<std::size_t>((2 * work().part + number) * kGroups + group_) * (64 * kColumns);
    return attention_.key_sums + at + 4 * (threadIdx.x % kWarpgroupThreads);
  }

  // The parts of the heads that share k and v add up in memory in their order, each warp its rows. The accumulators of
  // products are only read: to add to them takes registers that the loop over steps has not.
  __device__ __forceinline__ void end_part() const {
    const int parts = work().parts_before;
    if (parts == 0 && !work().leaves_sums) return write_key_gradients();
    if (parts == 0) {
      store_sums(key_sums(0), dv_);
      store_sums(key_sums(1), dk_);
    } else {
      if (threadIdx.x % kWarpLanes == 0) wait_for_semaphore(key_semaphore(), static_cast<unsigned>(parts));
      __syncwarp();
      add_to_sums(key_sums(0), dv_);
      add_to_sums(key_sums(1), dk_);
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

  // dv, and then dk, of the sums in memory.
  __device__ __forceinline__ void write_sums() const {
    const int column = kSharesKeys ? group_ * kColumns : 0;
    const int key = work().first_key + key_in_block(static_cast<int>(threadIdx.x));
    float sums[kColumns / 2];
    read_sums(key_sums(0), sums);
    write(attention_.dv, sums, 1, 0, key, column);
    write(attention_.dv, sums, 1, 1, key + 8, column);
    read_sums(key_sums(1), sums);
    TurnBack<kColumns, Element> turn_back;
    turn_back.load(attention_, key, column, key < attention_.keys);
    write(attention_.dk, sums, attention_.scale, 0, key, column, turn_back);
    turn_back.load(attention_, key + 8, column, key + 8 < attention_.keys);
    write(attention_.dk, sums, attention_.scale, 1, key + 8, column, turn_back);
  }

  // dv, and dk while its cosines and sines are on the way.
  __device__ __forceinline__ void write_key_gradients() const {
    const int column = kSharesKeys ? group_ * kColumns : 0;
    const int key = work().first_key + key_in_block(static_cast<int>(threadIdx.x));
    TurnBack<kColumns, Element> first, second;
    first.load(attention_, key, column, key < attention_.keys);
    write(attention_.dv, dv_, 1, 0, key, column);
    write(attention_.dv, dv_, 1, 1, key + 8, column);
    second.load(attention_, key + 8, column, key + 8 < attention_.keys);
    write(attention_.dk, dk_, attention_.scale, 0, key, column, first);
    write(attention_.dk, dk_, attention_.scale, 1, key + 8, column, second);
  }

  template <class Change = Unchanged>
  __device__ __forceinline__ void write(const AttentionResult& result, const float (&sums)[kColumns / 2], float factor,
                                        int half, int key, int column, const Change& change = {}) const {
    auto* matrix = first_row_of_group<Element>(result, attention_.inner_count, work().matrix) + column;
    write_row<kColumns>(matrix + rows_apart(key, result.row), sums, factor, half,
                        key < attention_.keys ? attention_.width - column : 0, change);
  }

  float dv_[kColumns / 2], dk_[kColumns / 2];
};

template <class Element, HopperBackwardTiling kTiling>
__device__ __forceinline__ void differentiate(const HopperAttentionBackward& attention) {
  extern __shared__ __align__(1024) char dynamic[];
  auto& shared = *reinterpret_cast<Shared<kTiling>*>(dynamic);
  static_assert(sizeof(shared) <= HopperBackwardTiling::kStateBytes);
  const SharedTiles<kTiling> tiles{shared_address(dynamic) + HopperBackwardTiling::kStateBytes};
  if (threadIdx.x == 0) {
    constexpr int kReaders = kGroups * kWarpsOfGroup;
    constexpr int kReadersOfKeys = kTiling.groups() * kWarpsOfGroup;
    for (int stage = 0; stage < kTiling.key_stages; ++stage) {
      shared.keys_copied[stage].initialise(1);
      shared.keys_written[stage].initialise(1);
      shared.keys_free[stage].initialise(kReadersOfKeys);
    }
    for (int stage = 0; stage < kStages; ++stage) {
      shared.work_written[stage].initialise(1);
      shared.work_free[stage].initialise(kReadersOfKeys + 3);
      shared.q_written[stage].initialise(2);  // q, and the scalars of its rows
      shared.do_written[stage].initialise(1);
      shared.q_free[stage].initialise(kReaders);
      shared.do_free[stage].initialise(kReaders);
      shared.turn[stage].initialise(2);
      shared.added[stage].initialise(kReaders);
      shared.dq_written[stage].initialise(kReaders);
      shared.dq_free[stage].initialise(1);
      shared.ds_written[stage].initialise(kReaders);
      shared.ds_free[stage].initialise(kWarpsOfGroup);
    }
    publish_barriers();
  }
  __syncthreads();
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  if (group == kTiling.groups()) {
    release_registers<kTiling.registers_of_loads()>();
    if (thread == 0) load_tiles<kTiling>(attention, tiles, shared);
    if (thread / kWarpLanes == 1) load_scalars<Element, kTiling>(attention.rest, tiles, shared);
    if constexpr (kTiling.copies_sums) {
      if (thread == 2 * kWarpLanes) add_query_gradients<kTiling>(attention.rest, tiles, shared, 0);
      if (thread == 3 * kWarpLanes) add_query_gradients<kTiling>(attention.rest, tiles, shared, 1);
    } else {
      if (thread == 2 * kWarpLanes) open_turns<kTiling>(attention.rest, shared);
      if (thread == 3 * kWarpLanes) end_turns<kTiling>(attention.rest, shared);
    }
  } else if (kTiling.dq_apart && group == kGroups) {
    if constexpr (kTiling.dq_apart) {
      release_registers<kTiling.registers_of_dq()>();
      QueryGroup<Element, kTiling>(attention, tiles, shared).compute();
    }
  } else {
    acquire_registers<kTiling.registers_of_keys()>();
    KeyGroup<Element, kTiling>(attention, tiles, shared, group).compute();
  }
}

}  // namespace

// The kernels of the rows of hopper_variants.h, and those before and after them, which are the same for all scores.
#define RIDGEPOINT_ATTENTION(entry, type)                                                        \
  constexpr HopperBackwardTiling tiling_of_##entry = tiling_of(kHopperBackwardVariants, #entry); \
  extern "C" __global__ void __launch_bounds__(tiling_of_##entry.threads(), 1)                   \
      entry(const __grid_constant__ HopperAttentionBackward attention) {                         \
    differentiate<type, tiling_of_##entry>(attention);                                           \
  }
#define RIDGEPOINT_AFTER(function, after, entry, type)             \
  extern "C" __global__ void __launch_bounds__(kFinishThreads)     \
      after(const __grid_constant__ AttentionBackward attention) { \
    function<type, tiling_of_##entry>(attention);                  \
  }
#define RIDGEPOINT_PREPARE(entry, type)                                            \
  extern "C" __global__ void __launch_bounds__(256)                                \
      entry(const __grid_constant__ AttentionBackward attention, int semaphores) { \
    prepare_backward<type>(attention, semaphores);                                 \
  }
// Of every head size.
#define RIDGEPOINT_ATTENTION_OF_WIDTH(element, type, width)                          \
  RIDGEPOINT_ATTENTION(attention_backward_hopper_##element##_##width, type)          \
  RIDGEPOINT_ATTENTION(attention_backward_hopper_window_##element##_##width, type)   \
  RIDGEPOINT_ATTENTION(attention_backward_hopper_soft_cap_##element##_##width, type) \
  RIDGEPOINT_AFTER(finish, attention_backward_hopper_finish_##element##_##width,     \
                   attention_backward_hopper_##element##_##width, type)
// Of those up to 128.
#define RIDGEPOINT_ATTENTION_OF_FEW(element, type, width)                              \
  RIDGEPOINT_ATTENTION(attention_backward_hopper_short_##element##_##width, type)      \
  RIDGEPOINT_ATTENTION(attention_backward_hopper_divided_##element##_##width, type)    \
  RIDGEPOINT_AFTER(add_parts, attention_backward_hopper_add_parts_##element##_##width, \
                   attention_backward_hopper_divided_##element##_##width, type)

RIDGEPOINT_PREPARE(attention_backward_hopper_prepare_bf16, __nv_bfloat16)
RIDGEPOINT_ATTENTION_OF_WIDTH(bf16, __nv_bfloat16, 64)
RIDGEPOINT_ATTENTION_OF_WIDTH(bf16, __nv_bfloat16, 96)
RIDGEPOINT_ATTENTION_OF_WIDTH(bf16, __nv_bfloat16, 128)
RIDGEPOINT_ATTENTION_OF_WIDTH(bf16, __nv_bfloat16, 256)
RIDGEPOINT_ATTENTION_OF_FEW(bf16, __nv_bfloat16, 64)
RIDGEPOINT_ATTENTION_OF_FEW(bf16, __nv_bfloat16, 96)
RIDGEPOINT_ATTENTION_OF_FEW(bf16, __nv_bfloat16, 128)
RIDGEPOINT_PREPARE(attention_backward_hopper_prepare_fp16, __half)
RIDGEPOINT_ATTENTION_OF_WIDTH(fp16, __half, 64)
RIDGEPOINT_ATTENTION_OF_WIDTH(fp16, __half, 96)
RIDGEPOINT_ATTENTION_OF_WIDTH(fp16, __half, 128)
RIDGEPOINT_ATTENTION_OF_WIDTH(fp16, __half, 256)
RIDGEPOINT_ATTENTION_OF_FEW(fp16, __half, 64)
RIDGEPOINT_ATTENTION_OF_FEW(fp16, __half, 96)
RIDGEPOINT_ATTENTION_OF_FEW(fp16, __half, 128)

}  // namespace ridgepoint::cuda
