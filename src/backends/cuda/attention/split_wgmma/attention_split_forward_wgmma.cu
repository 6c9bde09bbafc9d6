// Flash attention for fp32 operands on Hopper, with the accuracy of fp32, and for tf32. The arithmetic and its limits
// are those of attention_split_forward.cu, but the keys of a step that share a scale are 64 or 128. tf32 has one part
// of each operand instead of two.
//
//   before         q k v -> fp16 parts in device memory
//   load warp      q k(n-1) v(n-1) | k(n-2) v(n-2) | ...       copy engine -> shared memory, two stages
//   warpgroup 0    s(n-1)                  o += p(n-1) v(n-1)   s(n-2) ...      tensor cores
//                         softmax of s(n-1)                                     while warpgroup 1's products run
//   warpgroup 1    the same for its own 64 queries
//
// A product of two parts each is three products: those of a second and a first part come first, their sum is scaled by
// 1 / 2048 in the registers that hold it, and the product of the first parts is added. Tensor cores sum at most 64
// products of first parts; longer sums are added in rounded fp32.
// `written` barriers count the copies of a stage, `free` barriers the warps that have read it. Keys are taken from the
// last to the first, so that steps with masked positions come first.
// attention_forward_hopper_prepare_*: grid (most tiles of an operand, 3), block (256)
// attention_forward_hopper_*: grid (matrices x blocks of queries, of some matrices the last queries first), block
// (384), shared memory forward_shared_bytes()
#include "backends/cuda/attention/split_wgmma/attention_parts.cuh"
#include "backends/cuda/attention/split_wgmma/hopper_split_variants.h"

namespace ridgepoint::cuda {
namespace {

// The stage of a ring buffer, and the parity of its phase.
template <int kStages>
struct Stage {
  int number = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++number < kStages) return;
    number = 0;
    parity ^= 1;
  }
};

struct Barriers {
  SharedBarrier q_written;
  SharedBarrier k_written[2], k_free[2];
  SharedBarrier v_written[2], v_free[2];
};

// Queries of a matrix, and their keys.
template <HopperSplitForwardTiling kTiling>
struct Tile {
  using QTile = PartTile<64, kTiling.width, kTiling.parts>;
  using KeyTile = PartTile<kTiling.keys, kTiling.width, kTiling.parts>;
  int matrix, first_query;
  int steps;                 // of keys
  int query_tile, key_tile;  // the first ones, of 64 queries and of the keys of a step

  Tile() = default;
  // The blocks of `together` matrices begin with those that see most keys.
  __device__ __forceinline__ explicit Tile(const HopperSplitForward& parts) {
    const AttentionForward& attention = parts.rest;
    const int together = parts.together;
    const int blocks = (attention.queries - 1) / kTiling.rows + 1;
    const int set = static_cast<int>(blockIdx.x) / (together * blocks);
    const int number = static_cast<int>(blockIdx.x) - set * (together * blocks);
    const int matrices = min(together, parts.batch - set * together);
    const int block = blocks - 1 - number / matrices;
    matrix = set * together + number % matrices;
    first_query = block * kTiling.rows;
    const int visible = attention.causal ? min(attention.keys, first_query + kTiling.rows) : attention.keys;
    steps = (visible - 1) / kTiling.keys + 1;
    query_tile = (matrix * blocks + block) * kTiling.groups();
    key_tile = static_cast<int>(divide(static_cast<unsigned>(matrix), attention.k.group).quotient) *
               ((attention.keys - 1) / kTiling.keys + 1);
  }
};

template <HopperSplitForwardTiling kTiling>
struct SharedTiles {
  std::uint32_t q;
  __device__ __forceinline__ std::uint32_t k(int stage) const {
    return q + kTiling.query_bytes() + stage * kTiling.key_bytes();
  }
  __device__ __forceinline__ std::uint32_t v(int stage) const { return k(stage + kTiling.stages()); }
};

// One thread.
template <HopperSplitForwardTiling kTiling>
__device__ void load_tiles(const HopperSplitForward& attention, const Tile<kTiling>& tile,
                           const SharedTiles<kTiling>& shared, Barriers& barriers) {
  using Place = Tile<kTiling>;
  arrive_and_expect(barriers.q_written, kTiling.query_bytes());
  copy_parts(shared.q, attention.q.tiles + static_cast<long long>(tile.query_tile) * Place::QTile::kBytes,
             kTiling.query_bytes(), barriers.q_written);
  Stage<kTiling.stages()> ring;
#pragma unroll 1
  for (int step = tile.steps - 1; step >= 0; --step, ring.advance()) {
    const long long from = static_cast<long long>(tile.key_tile + step) * Place::KeyTile::kBytes;
    barriers.k_free[ring.number].wait(ring.parity ^ 1);
    arrive_and_expect(barriers.k_written[ring.number], kTiling.key_bytes());
    copy_parts(shared.k(ring.number), attention.k.tiles + from, kTiling.key_bytes(), barriers.k_written[ring.number]);
    barriers.v_free[ring.number].wait(ring.parity ^ 1);
    arrive_and_expect(barriers.v_written[ring.number], kTiling.key_bytes());
    copy_parts(shared.v(ring.number), attention.v.tiles + from, kTiling.key_bytes(), barriers.v_written[ring.number]);
  }
}

// A warpgroup with 64 queries.
template <HopperSplitForwardTiling kTiling>
class QueryGroup {
  using Place = Tile<kTiling>;
  using QTile = typename Place::QTile;
  using KeyTile = typename Place::KeyTile;
  static constexpr int kKeys = kTiling.keys;
  static constexpr int kPanels = kTiling.width / 64;
  static constexpr int kParts = kTiling.parts;
  static constexpr int kScoreColumns = kKeys / 8;

 public:
  __device__ QueryGroup(const HopperSplitForward& attention, const Tile<kTiling>& tile,
                        const SharedTiles<kTiling>& shared, Barriers& barriers, int group, int thread)
      : attention_(attention.rest),
        parts_(attention),
        tile_(tile),
        shared_(shared),
        barriers_(barriers),
        group_(group),
        thread_(thread) {}

  __device__ __forceinline__ void compute() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum_[half] = -INFINITY;
      sum_[half] = 0;
      const float* largest = parts_.q.largest + (tile_.query_tile + group_) * 64LL + row_in_group() + 8 * half;
      q_unit_[half] = TileScale(*largest).down;
    }
#pragma unroll
    for (int i = 0; i < kPanels * 32; ++i) o_[i] = 0;
    barriers_.q_written.wait(0);
    Stage<kTiling.stages()> ring;
#pragma unroll 1
    for (int step = tile_.steps - 1; step >= 0; --step, ring.advance()) attend(step, ring);
    write();
  }

 private:
  __device__ __forceinline__ void attend(int step, const Stage<kTiling.stages()>& ring) {
    const float k_unit = TileScale(parts_.k.largest[tile_.key_tile + step]).down;
    const float v_unit = TileScale(parts_.v.largest[tile_.key_tile + step]).down / (1 << kScaledBits);
    float scores[kKeys / 2];
    barriers_.k_written[ring.number].wait(ring.parity);
    multiply_keys(scores, ring.number);
    release(barriers_.k_free[ring.number]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = q_unit_[half] * k_unit * attention_.scale;
#pragma unroll
      for (int j = 0; j < kScoreColumns; ++j) {
        scores[4 * j + 2 * half] = __fmul_rn(scores[4 * j + 2 * half], factor);
        scores[4 * j + 2 * half + 1] = __fmul_rn(scores[4 * j + 2 * half + 1], factor);
      }
    }
    mask_if_needed(step, scores);
    float factor[2];
    compute_exponentials(scores, factor);
    RegisterOperand<kParts, kKeys / 16> weights;
    weights.split_sums(scores);
    barriers_.v_written[ring.number].wait(ring.parity);
    multiply_panels<kParts, kPanels, kKeys>(weights, shared_.v(ring.number), KeyTile::kPartBytes, KeyTile::kPanelBytes,
                                            [&](int panel, int i, float x) {
                                              float& o = o_[panel * 32 + i];
                                              o = fmaf(x, v_unit, o * factor[i / 2 % 2]);
                                            });
    release(barriers_.v_free[ring.number]);
  }

  __device__ __forceinline__ void multiply_keys(float (&scores)[kKeys / 2], int stage) const {
    using Operand = SharedOperand<Contiguous::k>;
    const std::uint32_t q_tile = shared_.q + group_ * QTile::kBytes;
    const Operand q(q_tile, QTile::kPartBytes, QTile::kPanelBytes);
    const Operand k(shared_.k(stage), KeyTile::kPartBytes, KeyTile::kPanelBytes);
    if constexpr (kPanels == 1) {
      if constexpr (kParts == 2) {
        begin_products();
        multiply_seconds<kKeys, 4>(scores, q, k);
        end_products();
        wait_for_products<0>();
        scale_seconds(scores);
      }
      begin_products();
      multiply_firsts<kKeys, 0>(scores, q, k, kParts == 2);
      end_products();
      wait_for_products<0>();
    } else {
      multiply_two_panels<kParts, kKeys, false>(scores, q, k);
    }
    if constexpr (kPanels == 4) {
      const Operand other_q(q_tile + 2 * QTile::kPanelBytes, QTile::kPartBytes, QTile::kPanelBytes);
      const Operand other_k(shared_.k(stage) + 2 * KeyTile::kPanelBytes, KeyTile::kPartBytes, KeyTile::kPanelBytes);
      float others[kKeys / 2];
      multiply_two_panels<kParts, kKeys, false>(others, other_q, other_k);
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) scores[i] += others[i];
    }
  }

  __device__ __forceinline__ void release(SharedBarrier& barrier) const {
    if (thread_ % 32 == 0) barrier.arrive();
  }
  // The first of this thread's rows; the other one is 8 rows further.
  __device__ __forceinline__ int row_in_group() const { return thread_ / 32 * 16 + thread_ % 32 / 4; }

  __device__ __forceinline__ void mask_if_needed(int step, float (&scores)[kKeys / 2]) const {
    const int first_key = step * kKeys;
    const int first_query = tile_.first_query + group_ * 64;
    if (first_key + kKeys <= attention_.keys && (!attention_.causal || first_key + kKeys <= first_query + 1)) return;
    const int row = first_query + row_in_group();
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
    }
  }

  // Scores become exponentials times 2^kScaledBits; `factor` rescales earlier sums.
  __device__ __forceinline__ void compute_exponentials(float (&scores)[kKeys / 2], float (&factor)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = maximum_[half];
#pragma unroll
      for (int j = 0; j < kScoreColumns; ++j) {
        maximum = fmaxf(maximum, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
      }
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 1));
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, 2));
      const float shift = maximum == -INFINITY ? 0 : maximum;
      factor[half] = exp2_fast((maximum_[half] - shift) * kLog2E);
      maximum_[half] = maximum;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kScoreColumns; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[4 * j + 2 * half + i];
          score = exp2_fast(fmaf(score - shift, kLog2E, kScaledBits));
          sum += score;
        }
      }
      sum_[half] = sum_[half] * factor[half] + sum;
    }
  }

  __device__ __forceinline__ void write() const {
    auto* matrix = first_row<float>(attention_.o, attention_.inner_count, tile_.matrix);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = sum_[half];
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      const int row = tile_.first_query + group_ * 64 + row_in_group() + 8 * half;
      if (row >= attention_.queries) continue;
      sum /= 1 << kScaledBits;
      if (thread_ % 4 == 0) {
        attention_.log_sum_exp[static_cast<long long>(tile_.matrix) * attention_.queries + row] =
            maximum_[half] + logf(sum);
      }
      write_pairs<kPanels>(matrix + rows_apart(row, attention_.o.row), o_, half, 1 / sum, attention_.width);
    }
  }

  const AttentionForward& attention_;
  const HopperSplitForward& parts_;
  const Tile<kTiling>& tile_;
  SharedTiles<kTiling> shared_;
  Barriers& barriers_;
  int group_, thread_;
  float q_unit_[2];
  float maximum_[2];
  float sum_[2];  // over this thread's columns
  float o_[kPanels * 32];
};

template <HopperSplitForwardTiling kTiling>
__device__ __forceinline__ void attend(const HopperSplitForward& attention) {
  extern __shared__ char shared[];
  __shared__ Barriers barriers;
  __shared__ Tile<kTiling> tile;  // registers are scarce
  constexpr int kGroups = kTiling.groups();
  const SharedTiles<kTiling> tiles{(shared_address(shared) + 1023) / 1024 * 1024};
  if (threadIdx.x == 0) {
    barriers.q_written.initialise(1);
    for (int stage = 0; stage < kTiling.stages(); ++stage) {
      barriers.k_written[stage].initialise(1);
      barriers.v_written[stage].initialise(1);
      barriers.k_free[stage].initialise(kGroups * kWarpsOfGroup);
      barriers.v_free[stage].initialise(kGroups * kWarpsOfGroup);
    }
    publish_barriers();
    tile = Tile<kTiling>(attention);
  }
  __syncthreads();
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (group == kGroups) {
    release_registers<40>();
    if (threadIdx.x % kWarpgroupThreads == 0) load_tiles<kTiling>(attention, tile, tiles, barriers);
  } else {
    acquire_registers<232>();
    QueryGroup<kTiling>(attention, tile, tiles, barriers, group, static_cast<int>(threadIdx.x) % kWarpgroupThreads)
        .compute();
  }
}

// Splits q, k and v, by the second index of the grid; the first one counts tiles.
template <HopperSplitForwardTiling kTiling>
__device__ __forceinline__ void prepare(const HopperSplitForward& attention) {
  const AttentionForward& rest = attention.rest;
  const int tile = static_cast<int>(blockIdx.x);
  if (blockIdx.y == 0) {
    using Tile = typename Tile<kTiling>::QTile;
    const int tiles = ((rest.queries - 1) / kTiling.rows + 1) * kTiling.groups();
    const int matrix = tile / tiles;
    if (matrix >= attention.batch) return;
    split_tile<64, kTiling.width, kTiling.parts, Scales::of_rows, false>(
        first_row<float>(rest.q, rest.inner_count, matrix), rest.q.row, (tile - matrix * tiles) * 64, rest.queries,
        rest.width, attention.q.tiles + static_cast<long long>(tile) * Tile::kBytes, attention.q.largest + tile * 64LL);
  } else {
    using Tile = typename Tile<kTiling>::KeyTile;
    const bool is_k = blockIdx.y == 1;
    const AttentionOperand& from = is_k ? rest.k : rest.v;
    const AttentionParts& to = is_k ? attention.k : attention.v;
    const int tiles = (rest.keys - 1) / kTiling.keys + 1;
    const int matrix = tile / tiles;
    if (matrix >= attention.key_batch) return;
    split_tile<kTiling.keys, kTiling.width, kTiling.parts, Scales::of_tile, false>(
        first_row<float>(from, rest.inner_count, matrix * static_cast<int>(from.group.value)), from.row,
        (tile - matrix * tiles) * kTiling.keys, rest.keys, rest.width,
        to.tiles + static_cast<long long>(tile) * Tile::kBytes, to.largest + tile);
  }
}

}  // namespace

// The kernels of one row of hopper_split_variants.h.
#define RIDGEPOINT_ATTENTION(entry, prepare_entry)                                                       \
  constexpr HopperSplitForwardTiling tiling_of_##entry = tiling_of(kHopperSplitForwardVariants, #entry); \
  extern "C" __global__ void __launch_bounds__(kSplitThreads)                                            \
      prepare_entry(const __grid_constant__ HopperSplitForward attention) {                              \
    prepare<tiling_of_##entry>(attention);                                                               \
  }                                                                                                      \
  extern "C" __global__ void __launch_bounds__(tiling_of_##entry.threads(), 1)                           \
      entry(const __grid_constant__ HopperSplitForward attention) {                                      \
    attend<tiling_of_##entry>(attention);                                                                \
  }

RIDGEPOINT_ATTENTION(attention_forward_hopper_fp32_64, attention_forward_hopper_prepare_fp32_64)
RIDGEPOINT_ATTENTION(attention_forward_hopper_fp32_128, attention_forward_hopper_prepare_fp32_128)
RIDGEPOINT_ATTENTION(attention_forward_hopper_fp32_256, attention_forward_hopper_prepare_fp32_256)
RIDGEPOINT_ATTENTION(attention_forward_hopper_tf32_64, attention_forward_hopper_prepare_tf32_64)
RIDGEPOINT_ATTENTION(attention_forward_hopper_tf32_128, attention_forward_hopper_prepare_tf32_128)
RIDGEPOINT_ATTENTION(attention_forward_hopper_tf32_256, attention_forward_hopper_prepare_tf32_256)

}  // namespace ridgepoint::cuda
