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
// Heads of more than 128 columns: blocks of 64 keys, because dk and dv of 64 keys take the registers of two warpgroups.
// One has scores and dv, the other their gradients and dk; p goes from registers to registers through shared memory.
//
//   warpgroup 0    | dv += p do   s = k q^T of the next step | p of s, for warpgroup 1
//   warpgroup 1    | dk += ds q   dp = v do^T of the next step | ds of dp and p, for warpgroup 2
//   warpgroup 2    dq = ds k, 64 columns at a time, which it adds to the sums
// *_short_*: the last block of keys that adds to a block of queries reads the sums of the others and writes dq.
// *_divided_*: for few heads. A thread block takes a chunk of the steps of a block of keys, and leaves sums of dk and
// dv; blocks of keys add to several slices of the sums of dq. *_add_parts_* adds them, each in a fixed order.
// attention_backward_hopper_prepare_*: attention_products.cuh
// attention_backward_hopper_*: grid (at most one block for each multiprocessor), block (threads()), shared
// memory backward_shared_bytes()
// attention_backward_hopper_finish_*, *_add_parts_*: attention_backward_finish.cuh, block (128)
#include "backends/cuda/device/warpgroup_mma.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_finish.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_keys.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_loads.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_order.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_queries.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_scores.cuh"
#include "backends/cuda/attention/wgmma/attention_backward_wide.cuh"
#include "backends/cuda/attention/wgmma/attention_hopper.cuh"
#include "backends/cuda/attention/common/attention_products.cuh"
#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "backends/cuda/attention/common/window.h"

namespace ridgepoint::cuda {
namespace {

// A warpgroup with 64 keys of the block.
template <class Element, HopperBackwardTiling kTiling>
class KeyGroup : KeyProducts<Element, kTiling> {
  using Products = KeyProducts<Element, kTiling>;
  using Dq = QuerySums<Element, kTiling>;
  using Step = ScoresOfStep<Element, kTiling>;
  using Step::attention_, Step::tiles_, Step::shared_, Step::group_, Step::step_, Step::number_;
  using Step::kRows, Step::kRowSteps, Step::work, Step::key_in_block;
  using Products::kWidth, Products::k, Products::release, Products::keep_order;
  using Products::begin_scores, Products::begin_weight_gradients, Products::add_gradients, Products::key_sums;

 public:
  __device__ KeyGroup(const HopperAttentionBackward& attention, const SharedTiles<kTiling>& tiles,
                      Shared<kTiling>& shared, int group)
      : Products(attention, tiles, shared, group) {}

  __device__ __forceinline__ void compute() {
    clear_gradients();
    if (kTiling.dq_apart && group_ == 1) pass_turn();
#pragma unroll 1
    for (; Dq::begin_work(); ++number_) {
      differentiate();
      __syncwarp();  // all lanes have read the work
      release(shared_.work_free[number_ & 1]);
    }
  }

 private:
  __device__ __forceinline__ void differentiate() {
    take_steps();
    release(shared_.keys_free[number_ % kTiling.key_stages]);
    if (!work().is_last_head) return;
    if constexpr (kTiling.adds_parts()) {
      Products::end_part(
          [&](const auto& add) {
            add(key_sums(0), dv_);
            add(key_sums(1), dk_);
          },
          [&] { write_key_gradients(); }, [&] { write_sums(); });
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
    for (int i = 0; i < kWidth / 2; ++i) dv_[i] = dk_[i] = 0;
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

  // From s, which is under way, to dk, which still is then. dp takes the registers of s, and ds those of the weights,
  // which are rounded before: with them there are two sums of scores fewer to hold, and no other warpgroup to meet.
  __device__ __forceinline__ void take_step_apart(float (&scores)[kRows / 2]) {
    Step::forget();
    const Ring ring = Ring::at(step_);
    unsigned packed[kRowSteps][4];
    wait_for_products<0>();
    keep_order(scores);
    take_turn();
    Step::compute_weights(ring.stage, scores);
    Step::mask_if_needed(scores, 0);
    Step::pack_operands(scores, packed);
    pass_turn();
    begin_weight_gradients(scores);
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

  // Whether another step follows.
  __device__ __forceinline__ bool take_step() {
    const Ring ring = Ring::at(step_);
    float p[kRows / 2], ds[kRows / 2], dq[kSumColumns / 2];
    unsigned packed_p[kRowSteps][4], packed_ds[kRowSteps][4];
    begin_scores(p);
    begin_weight_gradients(ds);
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
    Dq::multiply_score_gradients(dq, ring.stage);
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
      wait_for_products<0>();
      release(shared_.q_free[ring.stage]);
    }
    if constexpr (!kTiling.copies_sums) {
      __syncwarp();
      release(shared_.added[ring.stage]);
    }
    const bool has_next = step_ + 1 < work().end;
    return has_next;
  }

  // dv, and then dk, of the sums in memory.
  __device__ __forceinline__ void write_sums() const {
    const int key = work().first_key + key_in_block(static_cast<int>(threadIdx.x));
    float sums[kWidth / 2];
    read_sums(key_sums(0), sums);
    Products::template write<kWidth>(attention_.dv, sums, 1, 0, key, 0);
    Products::template write<kWidth>(attention_.dv, sums, 1, 1, key + 8, 0);
    read_sums(key_sums(1), sums);
    TurnBack<kWidth, Element> turn_back;
    turn_back.load(attention_, key, 0, key < attention_.keys);
    Products::template write<kWidth>(attention_.dk, sums, attention_.scale, 0, key, 0, turn_back);
    turn_back.load(attention_, key + 8, 0, key + 8 < attention_.keys);
    Products::template write<kWidth>(attention_.dk, sums, attention_.scale, 1, key + 8, 0, turn_back);
  }

  // dv, and dk while its cosines and sines are on the way.
  __device__ __forceinline__ void write_key_gradients() const {
    const int key = work().first_key + key_in_block(static_cast<int>(threadIdx.x));
    TurnBack<kWidth, Element> first, second;
    first.load(attention_, key, 0, key < attention_.keys);
    Products::template write<kWidth>(attention_.dv, dv_, 1, 0, key, 0);
    Products::template write<kWidth>(attention_.dv, dv_, 1, 1, key + 8, 0);
    second.load(attention_, key + 8, 0, key + 8 < attention_.keys);
    Products::template write<kWidth>(attention_.dk, dk_, attention_.scale, 0, key, 0, first);
    Products::template write<kWidth>(attention_.dk, dk_, attention_.scale, 1, key + 8, 0, second);
  }

  float dv_[kWidth / 2], dk_[kWidth / 2];
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
      shared.added[stage].initialise(kQueryTiles<kTiling> * kWarpsOfGroup);
      shared.dq_written[stage].initialise(kReaders);
      shared.dq_free[stage].initialise(1);
      shared.ds_written[stage].initialise(kTiling.shares_keys() ? kWarpsOfGroup : kReaders);
      shared.ds_free[stage].initialise(kWarpsOfGroup);
      shared.weights_written[stage].initialise(kWarpsOfGroup);
      shared.weights_free[stage].initialise(kWarpsOfGroup);
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
    if constexpr (!kTiling.shares_keys()) {
      KeyGroup<Element, kTiling>(attention, tiles, shared, group).compute();
    } else if (group == 0) {
      SharedKeyGroup<Element, kTiling, true>(attention, tiles, shared).compute();
    } else {
      SharedKeyGroup<Element, kTiling, false>(attention, tiles, shared).compute();
    }
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
