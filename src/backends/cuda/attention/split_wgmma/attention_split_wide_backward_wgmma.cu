// The backward of flash attention for fp32 operands and tf32 with heads of more than 128 on Hopper. The arithmetic is
// that of attention_split_backward_wgmma.cu, which also draws the loading warpgroup; a block has 64 keys, and a step 32
// queries.
//
//   warpgroup 0    s0 = k q^T   dp0 = v do^T                       dv += p do   dk += ds q   dq = k^T ds
//                  over columns 0 to 127     s = s0 + s1           columns 0 to 127 of each
//                                            p, ds of queries 0 to 15 -> shared memory
//   warpgroup 1    the same over columns 128 to 255, for queries 16 to 31
//
// dk and dv of 64 keys and 256 columns fill the registers of two warpgroups, so each has half of the columns, of every
// product. A warpgroup has half of each sum over the columns; both exchange what the other needs in shared memory,
// where the weights and ds follow. So all warpgroups meet four times in a step.
#include "backends/cuda/attention/split_wgmma/attention_split_backward_loads.cuh"
#include "backends/cuda/attention/split_wgmma/attention_split_gradients.cuh"
#include "backends/cuda/attention/split_wgmma/hopper_split_variants.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kQueries = 32;   // of a step
constexpr int kColumns = 128;  // of a warpgroup

template <HopperSplitBackwardTiling kTiling>
class WideKeyGroup {
  static_assert(kTiling.width == kGroups * kColumns && kTiling.rows == kQueries && kTiling.keys == 64);
  using Block = KeyBlock<kTiling>;
  using QueryTile = typename Block::QueryTile;
  using KeyTile = typename Block::KeyTile;
  static constexpr int kParts = kTiling.parts;
  static constexpr int kPanels = kColumns / 64;
  // Weights and ds have a line of 128 bytes for each key, of which the first half are a step's queries.
  static constexpr int kScorePart = kTiling.keys * kLineBytes;
  using RowOperand = SharedOperand<Contiguous::k>;

 public:
  __device__ WideKeyGroup(const AttentionBackward& attention, const SharedTiles<kTiling>& tiles,
                          Shared<kTiling>& shared, int group)
      : attention_(attention), tiles_(tiles), shared_(shared), group_(group) {}

  __device__ __forceinline__ void compute() {
#pragma unroll
    for (int i = 0; i < kPanels * 32; ++i) dv_[i] = dk_[i] = 0;
    shared_.keys_written.wait(0);
    const int steps = block().last - block().first + 1;
#pragma unroll 1
    for (; step_ < steps; ++step_) take_step();
    write(attention_.dv, dv_, 1);
    write(attention_.dk, dk_, attention_.scale);
  }

 private:
  __device__ __forceinline__ const Block& block() const { return shared_.block; }
  __device__ __forceinline__ std::uint32_t q_half() const { return tiles_.q() + group_ * (QueryTile::kBytes / 2); }
  __device__ __forceinline__ std::uint32_t do_half() const { return tiles_.d_o() + group_ * (QueryTile::kBytes / 2); }
  __device__ __forceinline__ std::uint32_t k_half() const { return tiles_.k + group_ * (KeyTile::kBytes / 2); }
  __device__ __forceinline__ std::uint32_t v_half() const { return tiles_.v() + group_ * (KeyTile::kBytes / 2); }
  __device__ __forceinline__ std::uint32_t weights() const { return tiles_.ds() + kParts * kScorePart; }
  // Read anew each time, so that what follows from it is not kept in registers through the loop.
  static __device__ __forceinline__ int thread() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread % kWarpgroupThreads;
  }
  static __device__ __forceinline__ void meet_other() { meet(1, kGroups * kWarpgroupThreads); }
  __device__ __forceinline__ void release(SharedBarrier& barrier) const {
    if (thread() % kWarpLanes == 0) barrier.arrive();
  }

  __device__ __forceinline__ void take_step() {
    // So that addresses that follow from these are not computed before the loop and kept in registers.
    asm volatile("" : "+r"(tiles_.k), "+r"(group_));
    const unsigned parity = step_ & 1;
    float p[kQueries / 2], ds[kQueries / 2];
    shared_.q_written[group_].wait(parity);
    multiply_two_panels<kParts, kQueries, true>(p, RowOperand(k_half(), KeyTile::kPartBytes, KeyTile::kPanelBytes),
                                                RowOperand(q_half(), QueryTile::kPartBytes, QueryTile::kPanelBytes));
    shared_.do_written[group_].wait(parity);
    multiply_two_panels<kParts, kQueries, true>(ds, RowOperand(v_half(), KeyTile::kPartBytes, KeyTile::kPanelBytes),
                                                RowOperand(do_half(), QueryTile::kPartBytes, QueryTile::kPanelBytes));
    meet_other();  // both have read weights and ds of the previous step
    float own_p[kQueries / 4], own_ds[kQueries / 4];
    add_halves(p, ds, own_p, own_ds);
    shared_.scalars_written.wait(parity);
    compute_weights(own_p);
    compute_score_gradients(own_p, own_ds);
    meet_other();  // both have read the halves of sums
    store(own_p, weights());
    store(own_ds, tiles_.ds());
    publish_to_tensor_cores();
    meet_other();
    multiply_panels<kParts, kPanels, kQueries>(
        RowOperand(weights(), kScorePart, 0), do_half(), QueryTile::kPartBytes, QueryTile::kPanelBytes,
        [&](int panel, int i, float x) { dv_[panel * 32 + i] = fmaf(x, shared_.scalars.of_dv, dv_[panel * 32 + i]); });
    release(shared_.do_free[group_]);
    multiply_panels<kParts, kPanels, kQueries>(
        RowOperand(tiles_.ds(), kScorePart, 0), q_half(), QueryTile::kPartBytes, QueryTile::kPanelBytes,
        [&](int panel, int i, float x) { dk_[panel * 32 + i] = fmaf(x, shared_.scalars.of_dk, dk_[panel * 32 + i]); });
    release(shared_.q_free[group_]);
    float dq[kSumsOfThread];
    multiply_score_gradients(shared_.scalars.of_dq, dq);
    __syncwarp();
    release(shared_.scalars_free);
    add_to_sums<kTiling>(attention_, shared_, step_, group_, dq);
  }

  // Exchanges the halves of sums with the other warpgroup. Each thread keeps those of 16 of the step's queries.
  __device__ __forceinline__ void add_halves(const float (&p)[kQueries / 2], const float (&ds)[kQueries / 2],
                                             float (&own_p)[kQueries / 4], float (&own_ds)[kQueries / 4]) const {
    constexpr int kOwn = kQueries / 4;
    constexpr int kVectors = 2 * kOwn / 4;
    const std::uint32_t at = tiles_.ds() + thread() * 16;
#pragma unroll
    for (int i = 0; i < kOwn; i += 4) {
      store_vector(at + ((1 - group_) * kVectors + i / 4) * (16 * kWarpgroupThreads), p, i);
      store_vector(at + ((1 - group_) * kVectors + (kOwn + i) / 4) * (16 * kWarpgroupThreads), ds, i);
    }
    meet_other();
#pragma unroll
    for (int i = 0; i < kOwn; i += 4) {
      add_vector(at + (group_ * kVectors + i / 4) * (16 * kWarpgroupThreads), p, i, own_p);
      add_vector(at + (group_ * kVectors + (kOwn + i) / 4) * (16 * kWarpgroupThreads), ds, i, own_ds);
    }
  }
  // Elements i to i + 3 of the other warpgroup's queries, and of this one's.
  __device__ __forceinline__ void store_vector(std::uint32_t address, const float (&x)[kQueries / 2], int i) const {
    float other[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) other[j] = group_ == 0 ? x[kQueries / 4 + i + j] : x[i + j];
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(other[0]), "f"(other[1]), "f"(other[2]),
                 "f"(other[3])
                 : "memory");
  }
  __device__ __forceinline__ void add_vector(std::uint32_t address, const float (&x)[kQueries / 2], int i,
                                             float (&sum)[kQueries / 4]) const {
    float other[4];
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(other[0]), "=f"(other[1]), "=f"(other[2]), "=f"(other[3])
                 : "r"(address));
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[i + j] = (group_ == 0 ? x[i + j] : x[kQueries / 4 + i + j]) + other[j];
  }

  // The first of this thread's keys in the block; the other one is 8 further.
  __device__ __forceinline__ int key_in_block() const { return thread() / 32 * 16 + thread() % 32 / 4; }
  // The first of this thread's queries in the step.
  __device__ __forceinline__ int query_in_step() const { return group_ * (kQueries / 2) + thread() % 4 * 2; }

  __device__ __forceinline__ void compute_weights(float (&p)[kQueries / 4]) const {
    const float factor = shared_.scalars.score;
    const int first_query = (block().last - step_) * kQueries + query_in_step();
    const int first_key = block().first_key + key_in_block();
#pragma unroll
    for (int i = 0; i < kQueries / 4; ++i) {
      const int query = i / 4 * 8 + i % 2;
      const int key = first_key + i / 2 % 2 * 8;
      const float score = __fmul_rn(p[i], factor);
      p[i] = exp2_fast(fmaf(score - shared_.scalars.log_sum_exp[query_in_step() + query], kLog2E, kScaledBits));
      if (key >= attention_.keys || (attention_.causal && key > first_query + query)) p[i] = 0;
    }
  }

  // dp becomes ds.
  __device__ __forceinline__ void compute_score_gradients(const float (&p)[kQueries / 4],
                                                          float (&ds)[kQueries / 4]) const {
#pragma unroll
    for (int i = 0; i < kQueries / 4; ++i) {
      const float product = shared_.scalars.products[query_in_step() + i / 4 * 8 + i % 2];
      ds[i] = p[i] * (fmaf(ds[i], shared_.scalars.value, -product) * shared_.scalars.ds_up);
    }
  }

  __device__ __forceinline__ void store(const float (&x)[kQueries / 4], std::uint32_t tile) const {
    RegisterOperand<kParts, 1> operand;
    operand.split_sums(x);
    const int line = thread() / 32 * 16 + thread() % 16;
    const std::uint32_t to = tile + swizzled(line, group_ * 2 + thread() % 32 / 16);
#pragma unroll
    for (int part = 0; part < kParts; ++part) store_matrices(to + part * kScorePart, operand.parts[part][0]);
  }

  // The transpose of dq = ds k, in two panels of 64 columns, for the step's queries.
  __device__ __forceinline__ void multiply_score_gradients(float unit, float (&dq)[kSumsOfThread]) const {
    using Operand = SharedOperand<Contiguous::other>;
    const Operand gradients(tiles_.ds(), kScorePart, 0);
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      const Operand k(k_half() + panel * KeyTile::kPanelBytes, KeyTile::kPartBytes, 0);
      float x[kQueries / 2];
      if constexpr (kParts == 2) {
        begin_products();
        multiply_seconds<kQueries, 4>(x, k, gradients);
        end_products();
        wait_for_products<0>();
        scale_seconds(x);
      }
      begin_products();
      multiply_firsts<kQueries, 0>(x, k, gradients, kParts == 2);
      end_products();
      wait_for_products<0>();
#pragma unroll
      for (int i = 0; i < kQueries / 2; ++i) dq[panel * (kQueries / 2) + i] = x[i] * unit;
    }
  }

  __device__ __forceinline__ void write(const AttentionResult& result, const float (&sums)[kPanels * 32],
                                        float factor) const {
    auto* matrix = first_row<float>(result, attention_.inner_count, block().matrix) + group_ * kColumns;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = block().first_key + key_in_block() + 8 * half;
      if (key < attention_.keys) {
        write_pairs<kPanels>(matrix + rows_apart(key, result.row), sums, half, factor,
                             attention_.width - group_ * kColumns);
      }
    }
  }

  const AttentionBackward& attention_;
  SharedTiles<kTiling> tiles_;
  Shared<kTiling>& shared_;
  int group_;
  int step_ = 0;
  float dv_[kPanels * 32], dk_[kPanels * 32];
};

// Writes the sums of dq of a step's queries in their order. A thread has two columns of each panel of 64, and eight
// queries.
__device__ __forceinline__ void finish_wide(const AttentionBackward& attention) {
  const int blocks = (attention.queries - 1) / kQueries + 1;
  const int matrix = static_cast<int>(blockIdx.x) / blocks;
  const int first_query = (static_cast<int>(blockIdx.x) - matrix * blocks) * kQueries;
  const int group = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  float dq[kSumsOfThread];
  read_sums(attention, static_cast<int>(blockIdx.x), dq);
  auto* rows = first_row<float>(attention.dq, attention.inner_count, matrix);
#pragma unroll
  for (int i = 0; i < kSumsOfThread; ++i) {
    const int query = first_query + i % 16 / 4 * 8 + thread % 4 * 2 + i % 2;
    const int column = group * kColumns + i / 16 * 64 + thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
    if (query < attention.queries && column < attention.width) {
      rows[rows_apart(query, attention.dq.row) + column] = dq[i];
    }
  }
}

}  // namespace

// The kernels of one row of hopper_split_variants.h. A half of q and do is read by one warpgroup.
#define RIDGEPOINT_ATTENTION(entry, prepare_entry)                                                         \
  constexpr HopperSplitBackwardTiling tiling_of_##entry = tiling_of(kHopperSplitBackwardVariants, #entry); \
  extern "C" __global__ void __launch_bounds__(kSplitThreads)                                              \
      prepare_entry(const __grid_constant__ HopperSplitBackward attention) {                               \
    prepare<tiling_of_##entry>(attention);                                                                 \
  }                                                                                                        \
  extern "C" __global__ void __launch_bounds__(tiling_of_##entry.threads(), 1)                             \
      entry(const __grid_constant__ HopperSplitBackward attention) {                                       \
    differentiate<tiling_of_##entry, WideKeyGroup<tiling_of_##entry>>(attention, kWarpsOfGroup);           \
  }

RIDGEPOINT_ATTENTION(attention_backward_hopper_fp32_256, attention_backward_hopper_prepare_fp32_256)
RIDGEPOINT_ATTENTION(attention_backward_hopper_tf32_256, attention_backward_hopper_prepare_tf32_256)

extern "C" __global__ void __launch_bounds__(kGroups* kWarpgroupThreads)
    attention_backward_hopper_finish_fp32_256(const __grid_constant__ AttentionBackward attention) {
  finish_wide(attention);
}

}  // namespace ridgepoint::cuda
