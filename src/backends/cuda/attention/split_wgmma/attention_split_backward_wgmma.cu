// The backward of flash attention for fp32 operands on Hopper, with the accuracy of fp32, and for tf32. The arithmetic
// and its limits are those of attention_split_backward.cu, but blocks of 128 keys share a scale, and steps of 64 or 128
// queries. tf32 has one part of each operand instead of two.
//
//   before         q k v do -> fp16 parts in device memory, and sum(do o) of each query
//   load warp 0    k v | do(m) q(m) | do(m-1) q(m-1) | ...               copy engine -> shared memory, one stage
//   load warp 1          scalars of step m: scales, log-sum-exp and sum(do o) of each query
//   load warp 2          waits until the previous block of keys has added its dq(m); opens `turn`
//   load warp 3          waits for `added`; lets the next block of keys add
//   warpgroup 0    s = k q^T   dp = v do^T      dv += p do      dk += ds q      dq = ds k
//                              p = exp(s - lse)                 do(m-1) comes   q(m-1) comes, dq -> sums
//                                         ds = p (dp - sum) -> shared memory
//   warpgroup 1    the same for its own 64 keys, and for the other half of dq
//   after          sums of dq in their order
//
// A product of two parts each is three products: those of a second and a first part come first, their sum is scaled by
// 1 / 2048 in the registers that hold it, and the product of the first parts is added. While one warpgroup scales, the
// other multiplies. Tensor cores sum at most 64 products of first parts, 128 for dp of heads of 128; longer sums are
// added in rounded fp32. Scores are bit for bit those of attention_split_forward_wgmma.cu. The order of the products
// is chosen so that one stage of q and do is enough: do is free after dv, and q after dk, while dq is multiplied.
// `written` barriers count the copies of a stage, `free` barriers the warps that have read it. Blocks of keys add to dq
// in their order, as in attention_backward_wgmma.cu.
// attention_backward_hopper_prepare_*: grid (most tiles of an operand, 5), block (256)
// attention_backward_hopper_*: grid (blocks of keys x matrices, matrices fastest), block (384), shared memory
// backward_shared_bytes()
// attention_backward_hopper_finish_*: grid (matrices x blocks of queries), block (256)
#include "backends/cuda/attention/split_wgmma/attention_split_backward_loads.cuh"
#include "backends/cuda/attention/split_wgmma/attention_split_gradients.cuh"
#include "backends/cuda/attention/split_wgmma/hopper_split_variants.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kKeys = HopperSplitBackwardTiling::kKeys;
constexpr int kSumColumns = 64;  // of dq, that a warpgroup adds
static_assert(kSumsOfThread == kSumColumns / 2);
// Named barriers, each for two warpgroups: this warpgroup's ds is stored; the other's is; the other has read ds.
enum NamedBarrier { kOwn = 1, kStored = 3, kRead = 5 };

// A warpgroup with 64 keys of the block.
template <HopperSplitBackwardTiling kTiling>
class KeyGroup {
  using Block = KeyBlock<kTiling>;
  using QueryTile = typename Block::QueryTile;
  using KeyTile = typename Block::KeyTile;
  static constexpr int kRows = kTiling.rows;
  static constexpr int kParts = kTiling.parts;
  static constexpr int kPanels = kTiling.width / 64;
  static constexpr int kDsPanel = kKeys * kLineBytes;  // of 64 queries
  static constexpr int kDsPart = kRows / 64 * kDsPanel;
  using RowOperand = SharedOperand<Contiguous::k>;

 public:
  __device__ KeyGroup(const AttentionBackward& attention, const SharedTiles<kTiling>& tiles, Shared<kTiling>& shared,
                      int group)
      : attention_(attention), tiles_(tiles), shared_(shared), group_(group) {}

  __device__ __forceinline__ void compute() {
#pragma unroll
    for (int i = 0; i < kPanels * 32; ++i) dv_[i] = dk_[i] = 0;
    shared_.keys_written.wait(0);
    allow(kRead + 1 - group_);
    bool has_next;
#pragma unroll 1
    do {
      has_next = take_step();
      ++step_;
    } while (has_next);
    meet(kRead + group_, kGroups * kWarpgroupThreads);  // as the other warpgroup allowed
    write(attention_.dv, dv_, 1);
    write(attention_.dk, dk_, attention_.scale);
  }

 private:
  // In shared memory, because registers are scarce.
  __device__ __forceinline__ const Block& block() const { return shared_.block; }
  // Read anew each time, so that what follows from it is not kept in registers through the loop.
  static __device__ __forceinline__ int thread() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread % kWarpgroupThreads;
  }
  __device__ __forceinline__ unsigned parity() const { return step_ & 1; }
  __device__ __forceinline__ int query_block() const { return block().last - step_; }

  // Whether another step follows.
  __device__ __forceinline__ bool take_step() {
    // So that addresses that follow from these are not computed before the loop and kept in registers.
    asm volatile("" : "+r"(tiles_.k), "+r"(group_));
    float p[kRows / 2], ds[kRows / 2];
    multiply_keys(p, ds);
    meet(kRead + group_, kGroups * kWarpgroupThreads);
    store_score_gradients(p, ds);
    meet(kOwn + group_, kWarpgroupThreads);
    allow(kStored + 1 - group_);
    RegisterOperand<kParts, kRows / 16> weights;
    weights.split_sums(p);
    {
      multiply_panels<kParts, kPanels, kRows>(
          weights, tiles_.d_o(), QueryTile::kPartBytes, QueryTile::kPanelBytes, [&](int panel, int i, float x) {
            dv_[panel * 32 + i] = fmaf(x, shared_.scalars.of_dv, dv_[panel * 32 + i]);
          });
    }
#pragma unroll
    for (int half = 0; half < kPanels; ++half) release(shared_.do_free[half]);
    {
      const float unit = shared_.scalars.of_dk;
      const RowOperand gradients(tiles_.ds() + group_ * (64 * kLineBytes), kDsPart, kDsPanel);
      multiply_panels<kParts, kPanels, kRows>(
          gradients, tiles_.q(), QueryTile::kPartBytes, QueryTile::kPanelBytes,
          [&](int panel, int i, float x) { dk_[panel * 32 + i] = fmaf(x, unit, dk_[panel * 32 + i]); });
    }
#pragma unroll
    for (int half = 0; half < kPanels; ++half) release(shared_.q_free[half]);
    const float unit = shared_.scalars.of_dq;
    __syncwarp();
    release(shared_.scalars_free);
    meet(kStored + group_, kGroups * kWarpgroupThreads);
    float dq[kSumColumns / 2];
    multiply_score_gradients(unit, dq);
    const bool has_next = query_block() > block().first;
    allow(kRead + 1 - group_);
    add_to_sums<kTiling>(attention_, shared_, step_, group_, dq);
    return has_next;
  }

  static __device__ __forceinline__ void allow(int barrier) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kGroups * kWarpgroupThreads) : "memory");
  }
  __device__ __forceinline__ void release(SharedBarrier& barrier) const {
    if (thread() % kWarpLanes == 0) barrier.arrive();
  }

  // p = weights times 2^kScaledBits, ds = their gradients, scaled.
  __device__ __forceinline__ void multiply_keys(float (&p)[kRows / 2], float (&ds)[kRows / 2]) const {
    const RowOperand k(tiles_.k + group_ * (64 * kLineBytes), KeyTile::kPartBytes, KeyTile::kPanelBytes);
    const RowOperand v(tiles_.v() + group_ * (64 * kLineBytes), KeyTile::kPartBytes, KeyTile::kPanelBytes);
    const RowOperand q(tiles_.q(), QueryTile::kPartBytes, QueryTile::kPanelBytes);
    const RowOperand d_o(tiles_.d_o(), QueryTile::kPartBytes, QueryTile::kPanelBytes);
#pragma unroll
    for (int half = 0; half < kPanels; ++half) shared_.q_written[half].wait(parity());
    begin_products();
    if constexpr (kParts == 2) multiply_seconds<kRows, kPanels * 4, true>(p, k, q);
    end_products();
    if constexpr (kPanels == 1) {
      for (int half = 0; half < kPanels; ++half) shared_.do_written[half].wait(parity());
      begin_products();
      if constexpr (kParts == 2) multiply_seconds<kRows, 4, true>(ds, v, d_o);
      end_products();
      wait_for_products<1>();
      if constexpr (kParts == 2) scale_seconds(p);
      begin_products();
      multiply_firsts<kRows, 0>(p, k, q, kParts == 2);
      end_products();
      wait_for_products<1>();
      if constexpr (kParts == 2) scale_seconds(ds);
      begin_products();
      multiply_firsts<kRows, 0>(ds, v, d_o, kParts == 2);
      end_products();
      wait_for_products<1>();
      shared_.scalars_written.wait(parity());
      compute_weights(p);
      wait_for_products<0>();
    } else {
      begin_products();
      multiply_firsts<kRows, 64>(ds, k, q, false);
      end_products();
      wait_for_products<1>();
      if constexpr (kParts == 2) scale_seconds(p);
      begin_products();
      multiply_firsts<kRows, 0>(p, k, q, kParts == 2);
      end_products();
      for (int half = 0; half < kPanels; ++half) shared_.do_written[half].wait(parity());
      wait_for_products<0>();
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) p[i] += ds[i];
      begin_products();
      if constexpr (kParts == 2) multiply_seconds<kRows, kPanels * 4, true>(ds, v, d_o);
      end_products();
      shared_.scalars_written.wait(parity());
      compute_weights(p);
      wait_for_products<0>();
      if constexpr (kParts == 2) scale_seconds(ds);
      begin_products();
      multiply_firsts<kRows, 0, 8>(ds, v, d_o, kParts == 2);
      end_products();
      wait_for_products<0>();
    }
  }

  // The first of this thread's keys in the block; the other one is 8 further.
  __device__ __forceinline__ int key_in_block() const { return group_ * 64 + thread() / 32 * 16 + thread() % 32 / 4; }

  __device__ __forceinline__ void compute_weights(float (&p)[kRows / 2]) const {
    const float factor = shared_.scalars.score;
    const int column = thread() % 4 * 2;
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
      const float2 lse = *reinterpret_cast<const float2*>(&shared_.scalars.log_sum_exp[8 * j + column]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float score = __fmul_rn(p[4 * j + i], factor);
        p[4 * j + i] = exp2_fast(fmaf(score - (i % 2 == 0 ? lse.x : lse.y), kLog2E, kScaledBits));
      }
    }
    const int first_key = block().first_key + group_ * 64;
    const int query = query_block() * kRows;
    if (first_key + 64 <= attention_.keys && (!attention_.causal || first_key + 64 <= query + 1)) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = block().first_key + key_in_block() + 8 * half;
      // Queries before `begin` do not attend to the key.
      const int begin = key >= attention_.keys ? kRows : (attention_.causal ? key - query : 0) - column;
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j) {
        if (8 * j < begin) p[4 * j + 2 * half] = 0;
        if (8 * j + 1 < begin) p[4 * j + 2 * half + 1] = 0;
      }
    }
  }

  // Turns dp into ds, in shared memory: a line for each key, panels of 64 queries.
  __device__ __forceinline__ void store_score_gradients(const float (&p)[kRows / 2],
                                                        const float (&dp)[kRows / 2]) const {
    const float factor = shared_.scalars.value;
    const float up = shared_.scalars.ds_up;
    const int column = thread() % 4 * 2;
    const int line = group_ * 64 + thread() / 32 * 16 + thread() % 16;
    const int half = thread() % 32 / 16;
#pragma unroll
    for (int step = 0; step < kRows / 16; ++step) {
      unsigned parts[kFp16Parts][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 product =
            *reinterpret_cast<const float2*>(&shared_.scalars.products[16 * step + i / 2 * 8 + column]);
        const int at = 8 * step + 2 * i;
        const float x = p[at] * (fmaf(dp[at], factor, -product.x) * up);
        const float y = p[at + 1] * (fmaf(dp[at + 1], factor, -product.y) * up);
        if constexpr (kParts == 2) {
          split(x, y, parts[0][i], parts[1][i]);
        } else {
          parts[0][i] = pack<__half>(x, y);
        }
      }
      const std::uint32_t to = tiles_.ds() + step / 4 * kDsPanel + swizzled(line, step % 4 * 2 + half);
#pragma unroll
      for (int part = 0; part < kParts; ++part) store_matrices(to + part * kDsPart, parts[part]);
    }
    publish_to_tensor_cores();
  }

  // ds k, for 64 queries and 64 columns: with 128 queries a warpgroup has half of them, otherwise half the columns.
  __device__ __forceinline__ void multiply_score_gradients(float unit, float (&sums)[kSumColumns / 2]) const {
    using Operand = SharedOperand<Contiguous::other>;
    const Operand gradients(tiles_.ds() + (kRows == 128 ? group_ * kDsPanel : 0), kDsPart, kDsPanel);
    multiply_panels<kParts, 1, kKeys>(gradients, tiles_.k + (kRows == 128 ? 0 : group_ * KeyTile::kPanelBytes),
                                      KeyTile::kPartBytes, KeyTile::kPanelBytes,
                                      [&](int /*panel*/, int i, float x) { sums[i] = x * unit; });
  }

  __device__ __forceinline__ void write(const AttentionResult& result, const float (&sums)[kPanels * 32],
                                        float factor) const {
    auto* matrix = first_row<float>(result, attention_.inner_count, block().matrix);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = block().first_key + key_in_block() + 8 * half;
      if (key < attention_.keys) {
        write_pairs<kPanels>(matrix + rows_apart(key, result.row), sums, half, factor, attention_.width);
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

// Writes the sums of dq of a block of queries in their order.
template <HopperSplitBackwardTiling kTiling>
__device__ __forceinline__ void finish(const AttentionBackward& attention) {
  const int blocks = (attention.queries - 1) / kTiling.rows + 1;
  const int matrix = static_cast<int>(blockIdx.x) / blocks;
  const int block = static_cast<int>(blockIdx.x) - matrix * blocks;
  const int group = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  float dq[kSumsOfThread];
  read_sums(attention, static_cast<int>(blockIdx.x), dq);
  const int row = block * kTiling.rows + (kTiling.rows == 128 ? group * 64 : 0) + thread / 32 * 16 + thread % 32 / 4;
  const int column = kTiling.rows == 128 ? 0 : group * kSumColumns;
  auto* rows = first_row<float>(attention.dq, attention.inner_count, matrix) + column;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + 8 * half >= attention.queries) continue;
    write_pairs<1>(rows + rows_apart(row + 8 * half, attention.dq.row), dq, half, 1, attention.width - column);
  }
}

}  // namespace

// The kernels of one row of hopper_split_variants.h, and the last one, which is the same for fp32 and tf32.
#define RIDGEPOINT_ATTENTION(entry, prepare_entry)                                                         \
  constexpr HopperSplitBackwardTiling tiling_of_##entry = tiling_of(kHopperSplitBackwardVariants, #entry); \
  extern "C" __global__ void __launch_bounds__(kSplitThreads)                                              \
      prepare_entry(const __grid_constant__ HopperSplitBackward attention) {                               \
    prepare<tiling_of_##entry>(attention);                                                                 \
  }                                                                                                        \
  extern "C" __global__ void __launch_bounds__(tiling_of_##entry.threads(), 1)                             \
      entry(const __grid_constant__ HopperSplitBackward attention) {                                       \
    differentiate<tiling_of_##entry, KeyGroup<tiling_of_##entry>>(attention, kGroups * kWarpsOfGroup);     \
  }
#define RIDGEPOINT_FINISH(entry, finish_entry)                             \
  extern "C" __global__ void __launch_bounds__(kGroups* kWarpgroupThreads) \
      finish_entry(const __grid_constant__ AttentionBackward attention) {  \
    finish<tiling_of_##entry>(attention);                                  \
  }

RIDGEPOINT_ATTENTION(attention_backward_hopper_fp32_64, attention_backward_hopper_prepare_fp32_64)
RIDGEPOINT_ATTENTION(attention_backward_hopper_fp32_128, attention_backward_hopper_prepare_fp32_128)
RIDGEPOINT_ATTENTION(attention_backward_hopper_tf32_64, attention_backward_hopper_prepare_tf32_64)
RIDGEPOINT_ATTENTION(attention_backward_hopper_tf32_128, attention_backward_hopper_prepare_tf32_128)
RIDGEPOINT_FINISH(attention_backward_hopper_fp32_64, attention_backward_hopper_finish_fp32_64)
RIDGEPOINT_FINISH(attention_backward_hopper_fp32_128, attention_backward_hopper_finish_fp32_128)

}  // namespace ridgepoint::cuda
