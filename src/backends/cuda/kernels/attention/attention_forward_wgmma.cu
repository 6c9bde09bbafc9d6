// Flash attention for bf16 or fp16 operands on Hopper, after the pipeline of FlashAttention-3 (Shah et al. 2024); the
// arithmetic is that of attention_forward.cu. Head sizes up to `width`, a multiple of 8. A scale must be positive.
//
//   load warp      k(n-1) q | k(n-2) v(n-1) | k(n-3) v(n-2) | ...      copy engine -> shared memory, two stages each
//   warpgroup 0    s(n-1)   | s(n-2)  o += p(n-1) v(n-1) | ...         tensor cores
//                           |         softmax of s(n-2), while the other warpgroups' products run
//   warpgroup 1             the same for its own 64 queries, half a step later
//
// Each step issues the scores of the next keys and then the values of the current ones, and computes exponentials while
// the values are multiplied. Named barriers 1 and on let one warpgroup at a time issue its products (take_turn), so the
// exponentials of one run under the products of another. `written` barriers count the copies of a stage, `free`
// barriers the warps that have read it. Keys are taken from the last to the first, so that steps with masked positions
// come first. With a window a block begins at the last key that its queries see and ends at the first one.
// grid (at most one block for each multiprocessor), block (128 x (warpgroups + 1)), shared memory
// forward_shared_bytes(). A block takes tiles of queries from a counter, those that see most keys first.
#include "backends/cuda/device/warpgroup_mma.cuh"
#include "backends/cuda/kernels/attention/attention_hopper.cuh"
#include "backends/cuda/kernels/attention/hopper_variants.h"
#include "backends/cuda/kernels/attention/window.h"

namespace ridgepoint::cuda {
namespace {

// The next tile after the first one of each block. The block that takes the number after the last tile's resets it, so
// it is 0 before and after every launch; launches of these kernels must not overlap.
__device__ unsigned next_tile;

struct Barriers {
  SharedBarrier q_written, q_free;
  SharedBarrier k_written[2], k_free[2];
  SharedBarrier v_written[2], v_free[2];
  int tile;  // of the queries in q; -1: no more
};

template <HopperForwardTiling kTiling>
struct Tile {
  int matrix;
  Division place;  // of the matrix: outer and inner index
  int first_query;
  int first_step, steps;  // steps before the first one are hidden by the window

  __device__ __forceinline__ Tile(const HopperAttentionForward& attention, int tile) {
    const Division at = divide(static_cast<unsigned>(tile), attention.blocks);
    matrix = static_cast<int>(at.quotient);
    first_query = static_cast<int>(attention.blocks.value - 1 - at.remainder) * kTiling.rows;
    place = divide(at.quotient, attention.inner_count);
    const int visible = attention.causal ? min(attention.keys, first_query + kTiling.rows) : attention.keys;
    steps = (visible + kTiling.keys - 1) / kTiling.keys;
    first_step = has_window(kTiling.scores) ? first_visible_block(first_query, attention.window, kTiling.keys) : 0;
  }
};

template <HopperForwardTiling kTiling>
struct SharedTiles {
  std::uint32_t q;
  __device__ __forceinline__ std::uint32_t k(int stage) const {
    return q + kTiling.query_bytes() + stage * kTiling.key_bytes();
  }
  __device__ __forceinline__ std::uint32_t v(int stage) const { return k(stage + HopperForwardTiling::kStages); }
};

template <int kRows, int kPanels>
__device__ __forceinline__ void copy_tile(std::uint32_t to, const AttentionMap& from, SharedBarrier& barrier, int row,
                                          const Division& place) {
  arrive_and_expect(barrier, kRows * kPanels * kLineBytes);
  copy_rows<kRows, kPanels>(to, from, barrier, row, place);
}

// One thread of the last warpgroup.
template <HopperForwardTiling kTiling>
__device__ void load_tiles(const HopperAttentionForward& attention, const SharedTiles<kTiling>& shared,
                           Barriers& barriers) {
  Ring ring;
  unsigned parity = 0;
  auto number = blockIdx.x;
#pragma unroll 1
  for (;; parity ^= 1) {
    const bool is_last = number >= static_cast<unsigned>(attention.tiles);
    barriers.q_free.wait(parity ^ 1);
    barriers.tile = is_last ? -1 : static_cast<int>(number);
    if (is_last) break;
    const Tile<kTiling> tile(attention, static_cast<int>(number));
    copy_tile<kTiling.rows, kTiling.panels()>(shared.q, attention.q, barriers.q_written, tile.first_query, tile.place);
#pragma unroll 1
    for (int step = tile.steps - 1; step >= tile.first_step; --step, ring.advance()) {
      barriers.k_free[ring.stage].wait(ring.parity ^ 1);
      copy_tile<kTiling.keys, kTiling.panels()>(shared.k(ring.stage), attention.k, barriers.k_written[ring.stage],
                                                step * kTiling.keys, tile.place);
      barriers.v_free[ring.stage].wait(ring.parity ^ 1);
      copy_tile<kTiling.keys, kTiling.panels()>(shared.v(ring.stage), attention.v, barriers.v_written[ring.stage],
                                                step * kTiling.keys, tile.place);
    }
    const unsigned taken = atomicAdd(&next_tile, 1U);
    if (taken == static_cast<unsigned>(attention.tiles) - 1) atomicExch(&next_tile, 0U);
    number = gridDim.x + taken;
  }
  barriers.q_written.arrive();
}

// A warpgroup with 64 queries of each tile.
template <class Element, HopperForwardTiling kTiling>
class QueryGroup {
  using Scores = WarpgroupProduct<Element, kTiling.keys>;
  using Values = WarpgroupProduct<Element, kTiling.width>;
  static constexpr int kScoreColumns = kTiling.keys / 8;
  static constexpr int kValueColumns = kTiling.width / 8;
  static constexpr int kKeySteps = kTiling.keys / 16;

 public:
  __device__ QueryGroup(const HopperAttentionForward& attention, const SharedTiles<kTiling>& shared, Barriers& barriers,
                        int group, int thread)
      : attention_(attention), shared_(shared), barriers_(barriers), group_(group), thread_(thread) {
    pass_first_turns();
  }

  __device__ __forceinline__ void compute() {
    for (unsigned parity = 0;; parity ^= 1) {
      barriers_.q_written.wait(parity);
      const int number = barriers_.tile;
      if (number < 0) return;
      const Tile<kTiling> tile(attention_, number);
      attend(tile);
      write(tile);
    }
  }

 private:
  __device__ __forceinline__ void attend(const Tile<kTiling>& tile) {
    maximum_[0] = maximum_[1] = -INFINITY;
    sum_[0] = sum_[1] = 0;
    float scores[kTiling.keys / 2];
    unsigned weights[kKeySteps][4];
    float factor[2];

    Ring k_ring = ring_, v_ring = ring_;
    barriers_.k_written[k_ring.stage].wait(k_ring.parity);
    begin_products();
    multiply_keys(scores, k_ring.stage);
    end_products();
    wait_for_products<0>();
    release(barriers_.k_free[k_ring.stage]);
    k_ring.advance();
    int step = tile.steps - 1;
    if (step == tile.first_step) release(barriers_.q_free);
    cap_if_needed(scores);
    mask_if_needed(tile, step, scores);
    compute_exponentials(scores, factor);
    pack_weights(scores, weights);
    bool keep = false;
    for (--step; step >= tile.first_step; --step) {
      barriers_.k_written[k_ring.stage].wait(k_ring.parity);
      take_turn();
      begin_products();
      multiply_keys(scores, k_ring.stage);
      end_products();
      barriers_.v_written[v_ring.stage].wait(v_ring.parity);
      begin_products();
      multiply_values(weights, v_ring.stage, keep);
      end_products();
      keep = true;
      pass_turn();
      wait_for_products<1>();
      release(barriers_.k_free[k_ring.stage]);
      k_ring.advance();
      if (step == tile.first_step) release(barriers_.q_free);
      cap_if_needed(scores);
      mask_if_needed(tile, step, scores);
      const bool grew = compute_exponentials(scores, factor);
      wait_for_products<0>();
      release(barriers_.v_free[v_ring.stage]);
      v_ring.advance();
      if (__any_sync(kAllLanes, grew)) rescale(factor);
      pack_weights(scores, weights);
    }
    barriers_.v_written[v_ring.stage].wait(v_ring.parity);
    begin_products();
    multiply_values(weights, v_ring.stage, keep);
    end_products();
    wait_for_products<0>();
    release(barriers_.v_free[v_ring.stage]);
    v_ring.advance();
    ring_ = v_ring;
  }

  // Of these, one warpgroup at a time issues products. Before its first turn, a warpgroup waits for those before it.
  __device__ __forceinline__ void pass_first_turns() const {
#pragma unroll
    for (int other = 0; other < kTiling.groups(); ++other) {
      if (other < group_) allow(other);
    }
  }
  __device__ __forceinline__ void take_turn() const {
    if constexpr (kTiling.groups() > 1) meet(1 + group_, kTiling.groups() * kWarpgroupThreads);
  }
  __device__ __forceinline__ void pass_turn() const {
#pragma unroll
    for (int other = 0; other < kTiling.groups(); ++other) {
      if (other != group_) allow(other);
    }
  }
  static __device__ __forceinline__ void allow(int group) {
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + group), "n"(kTiling.groups() * kWarpgroupThreads) : "memory");
  }

  __device__ __forceinline__ void release(SharedBarrier& barrier) const {
    if (thread_ % 32 == 0) barrier.arrive();
  }

  __device__ __forceinline__ void multiply_keys(float (&scores)[kTiling.keys / 2], int stage) const {
    const std::uint64_t q = tile_descriptor(shared_.q + group_ * (64 * kLineBytes), 0);
    const std::uint64_t k = tile_descriptor(shared_.k(stage), 0);
#pragma unroll
    for (int step = 0; step < kTiling.width / 16; ++step) {
      const int panel = step / 4;
      const int within = step % 4 * kDescriptorStep<true>;
      Scores::template add<Contiguous::k, Contiguous::k>(scores, q + panel * (kTiling.rows * kLineBytes >> 4) + within,
                                                         k + panel * (kTiling.keys * kLineBytes >> 4) + within,
                                                         step > 0);
    }
  }

  __device__ __forceinline__ void multiply_values(const unsigned (&weights)[kKeySteps][4], int stage, bool keep) {
    const std::uint64_t v = tile_descriptor(shared_.v(stage), kTiling.keys * kLineBytes);
#pragma unroll
    for (int step = 0; step < kKeySteps; ++step) {
      Values::template add<Contiguous::other>(values_, weights[step], v + step * kDescriptorStep<false>,
                                              keep || step > 0);
    }
  }

  // The first of this thread's rows; the other one is 8 rows further.
  __device__ __forceinline__ int row_in_tile() const { return group_ * 64 + thread_ / 32 * 16 + thread_ % 32 / 4; }

  __device__ __forceinline__ void mask_if_needed(const Tile<kTiling>& tile, int step,
                                                 float (&scores)[kTiling.keys / 2]) const {
    const int first_key = step * kTiling.keys;
    const int first_query = tile.first_query + group_ * 64;
    const bool hides_first = has_window(kTiling.scores) && window_hides(first_key, first_query + 63, attention_.window);
    if (first_key + kTiling.keys <= attention_.keys &&
        (!attention_.causal || first_key + kTiling.keys <= first_query + 1) && !hides_first) {
      return;
    }
    const int row = tile.first_query + row_in_tile();
    const int column = first_key + thread_ % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Columns from `end` on are masked.
      const int end = (attention_.causal ? min(attention_.keys, row + 8 * half + 1) : attention_.keys) - column;
#pragma unroll
      for (int j = 0; j < kScoreColumns; ++j) {
        if (8 * j >= end) scores[4 * j + 2 * half] = -INFINITY;
        if (8 * j + 1 >= end) scores[4 * j + 2 * half + 1] = -INFINITY;
      }
      if constexpr (has_window(kTiling.scores)) {
        // Columns before `begin` are masked.
        const int begin = row + 8 * half - attention_.window + 1 - column;
#pragma unroll
        for (int j = 0; j < kScoreColumns; ++j) {
          if (8 * j < begin) scores[4 * j + 2 * half] = -INFINITY;
          if (8 * j + 1 < begin) scores[4 * j + 2 * half + 1] = -INFINITY;
        }
      }
    }
  }

  // With a soft cap, scores become tanh(scale s / cap): the cap is then their scale.
  __device__ __forceinline__ void cap_if_needed(float (&scores)[kTiling.keys / 2]) const {
    if constexpr (has_soft_cap(kTiling.scores)) {
#pragma unroll
      for (int i = 0; i < kTiling.keys / 2; ++i) scores[i] = tanh_fast(attention_.tanh_scale * scores[i]);
    }
  }
  __device__ __forceinline__ float scale() const {
    return has_soft_cap(kTiling.scores) ? attention_.soft_cap : attention_.scale;
  }

  // Scores become exponentials. Returns whether a row's maximum has grown; `factor` then rescales its sums.
  __device__ __forceinline__ bool compute_exponentials(float (&scores)[kTiling.keys / 2], float (&factor)[2]) {
    const float scale = this->scale() * kLog2E;
    bool grew = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = maximum_[half];
#pragma unroll
      for (int j = 0; j < kScoreColumns; ++j) {
        maximum = fmaxf(maximum, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
      }
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 1));
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 2));
      const float shift = maximum == -INFINITY ? 0 : maximum * scale;
      factor[half] = exp2_fast(maximum_[half] * scale - shift);
      grew |= maximum != maximum_[half];
      maximum_[half] = maximum;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kScoreColumns; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[4 * j + 2 * half + i];
          score = exp2_fast(score * scale - shift);
          sum += score;
        }
      }
      sum_[half] = sum_[half] * factor[half] + sum;
    }
    return grew;
  }

  __device__ __forceinline__ void rescale(const float (&factor)[2]) {
#pragma unroll
    for (int j = 0; j < kValueColumns; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) values_[4 * j + i] *= factor[i / 2];
    }
  }

  static __device__ __forceinline__ void pack_weights(const float (&scores)[kTiling.keys / 2],
                                                      unsigned (&weights)[kKeySteps][4]) {
#pragma unroll
    for (int i = 0; i < kTiling.keys / 4; ++i) weights[i / 4][i % 4] = pack<Element>(scores[2 * i], scores[2 * i + 1]);
  }

  __device__ __forceinline__ void write(const Tile<kTiling>& tile) {
    const int upper = tile.first_query + row_in_tile();
    auto* matrix = first_row<Element>(attention_.o, attention_.inner_count, tile.matrix);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = sum_[half];
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      const int row = upper + 8 * half;
      const bool exists = row < attention_.queries;
      if (thread_ % 4 == 0 && exists) {
        attention_.log_sum_exp[static_cast<long long>(tile.matrix) * attention_.queries + row] =
            maximum_[half] * scale() + logf(sum);
      }
      write_row<kTiling.width>(matrix + rows_apart(row, attention_.o.row), values_, 1 / sum, half,
                               exists ? attention_.width : 0);
    }
  }

  const HopperAttentionForward& attention_;
  SharedTiles<kTiling> shared_;
  Barriers& barriers_;
  int group_, thread_;
  Ring ring_;
  float maximum_[2];
  float sum_[2];  // over this thread's columns
  float values_[kTiling.width / 2];
};

template <class Element, HopperForwardTiling kTiling>
__device__ __forceinline__ void attend(const HopperAttentionForward& attention) {
  extern __shared__ char shared[];
  __shared__ Barriers barriers;
  constexpr int kGroups = kTiling.groups();
  const std::uint32_t address = shared_address(shared);
  const SharedTiles<kTiling> tiles{(address + 1023) / 1024 * 1024};
  if (threadIdx.x == 0) {
    constexpr int kReaders = kGroups * kWarpsOfGroup;
    barriers.q_written.initialise(1);
    barriers.q_free.initialise(kReaders);
    for (int stage = 0; stage < HopperForwardTiling::kStages; ++stage) {
      barriers.k_written[stage].initialise(1);
      barriers.v_written[stage].initialise(1);
      barriers.k_free[stage].initialise(kReaders);
      barriers.v_free[stage].initialise(kReaders);
    }
    publish_barriers();
  }
  __syncthreads();
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  // A multiprocessor has 65,536 registers.
  if (group == kGroups) {
    release_registers<kGroups == 3 ? 32 : 40>();
    if (threadIdx.x % kWarpgroupThreads == 0) load_tiles<kTiling>(attention, tiles, barriers);
  } else {
    acquire_registers<kGroups == 3 ? 160 : 232>();
    QueryGroup<Element, kTiling>(attention, tiles, barriers, group, static_cast<int>(threadIdx.x) % kWarpgroupThreads)
        .compute();
  }
}

}  // namespace

// The kernel of one row of hopper_variants.h.
#define RIDGEPOINT_ATTENTION(entry, type)                                                      \
  constexpr HopperForwardTiling tiling_of_##entry = tiling_of(kHopperForwardVariants, #entry); \
  extern "C" __global__ void __launch_bounds__(tiling_of_##entry.threads(), 1)                 \
      entry(const __grid_constant__ HopperAttentionForward attention) {                        \
    attend<type, tiling_of_##entry>(attention);                                                \
  }

RIDGEPOINT_ATTENTION(attention_forward_hopper_bf16_64, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_bf16_96, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_bf16_128, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_bf16_256, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_fp16_64, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_fp16_96, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_fp16_128, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_fp16_256, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_window_bf16_64, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_window_bf16_96, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_window_bf16_128, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_window_bf16_256, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_window_fp16_64, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_window_fp16_96, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_window_fp16_128, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_window_fp16_256, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_soft_cap_bf16_64, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_soft_cap_bf16_96, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_soft_cap_bf16_128, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_soft_cap_bf16_256, __nv_bfloat16)
RIDGEPOINT_ATTENTION(attention_forward_hopper_soft_cap_fp16_64, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_soft_cap_fp16_96, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_soft_cap_fp16_128, __half)
RIDGEPOINT_ATTENTION(attention_forward_hopper_soft_cap_fp16_256, __half)

}  // namespace ridgepoint::cuda
