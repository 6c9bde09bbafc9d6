// The loading warp of attention_forward_wgmma.cu, which draws it: tiles of queries, what is in shared memory, copies,
// and which thread block takes what.
#pragma once

#include "backends/cuda/attention/wgmma/attention_hopper.cuh"
#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "backends/cuda/attention/common/window.h"

namespace ridgepoint::cuda {

// The next tile after the first one of each block. The block that takes the number after the last tile's resets it, so
// it is 0 before and after every launch; launches of these kernels must not overlap.
__device__ unsigned next_tile;

// A tile of queries, and its steps of keys.
template <HopperForwardTiling kTiling>
struct Tile {
  int matrix;  // -1: no more tiles
  int first_query;
  int first_step, steps;  // steps before the first one are hidden by the window
  int part;               // of a tile that is divided; -1: this is all of it

  Tile() = default;
  __device__ __forceinline__ Tile(const HopperAttentionForward& attention, unsigned number) {
    const Division set = divide(number, attention.tiles_of_set);
    const Division at = divide(set.remainder, attention.set);
    matrix = number < static_cast<unsigned>(attention.tiles)
                 ? static_cast<int>(set.quotient * attention.set.value + at.remainder)
                 : -1;
    int place = static_cast<int>(at.quotient);
    if (kTiling.streams > 1 && matrix >= attention.first_sorted) {
      const unsigned before = static_cast<unsigned>(attention.first_sorted) * attention.blocks.value;
      const Division sorted = divide(number - before, attention.sorted);
      matrix = attention.first_sorted + static_cast<int>(sorted.remainder);
      place = static_cast<int>(sorted.quotient);
    }
    set_steps(attention, place);
    part = -1;
  }

  // `place`: of the block of queries among those of a matrix, from the last one.
  __device__ __forceinline__ void set_steps(const HopperAttentionForward& attention, int place) {
    first_query = (static_cast<int>(attention.blocks.value) - 1 - place) * kTiling.rows;
    const int visible = attention.causal ? min(attention.keys, first_query + kTiling.rows) : attention.keys;
    steps = (visible + kTiling.keys - 1) / kTiling.keys;
    first_step = has_window(kTiling.scores) ? first_visible_block(first_query, attention.window, kTiling.keys) : 0;
  }
};

// Where tiles are divided, thread blocks have as many steps each: block i those of all tiles from
// begin(i) on. Tiles follow one another by their numbers, and the steps of one from its last keys to its first.
struct Shares {
  int steps;  // of all tiles

  __device__ __forceinline__ explicit Shares(const HopperAttentionForward& attention)
      : steps(static_cast<int>(attention.tiles / attention.blocks.value) * attention.steps_of_matrix) {}
  __device__ __forceinline__ int begin(int block, int blocks) const {
    return static_cast<int>(static_cast<long long>(steps) * block / blocks);
  }
  // The block that has this step.
  __device__ __forceinline__ int block_of(int step, int blocks) const {
    return static_cast<int>((static_cast<long long>(step + 1) * blocks - 1) / steps);
  }
};

// By one warp: the number of steps of a matrix before the tile at `place`.
template <HopperForwardTiling kTiling>
__device__ __forceinline__ int steps_before(const HopperAttentionForward& attention, int place) {
  int sum = 0;
  for (int at = static_cast<int>(threadIdx.x) % kWarpLanes; at < place; at += kWarpLanes) {
    Tile<kTiling> tile;
    tile.set_steps(attention, at);
    sum += tile.steps;
  }
  return __reduce_add_sync(kAllLanes, sum);
}

template <HopperForwardTiling kTiling>
struct Barriers {
  SharedBarrier q_written[kTiling.query_stages], q_free[kTiling.query_stages];
  SharedBarrier k_written[kTiling.key_stages], k_free[kTiling.key_stages];
  SharedBarrier v_written[kTiling.key_stages], v_free[kTiling.key_stages];
  Tile<kTiling> tiles[kTiling.query_stages];  // of the queries in q
};

template <HopperForwardTiling kTiling>
struct SharedTiles {
  std::uint32_t first;
  __device__ __forceinline__ std::uint32_t q(int stage) const { return first + stage * kTiling.query_bytes(); }
  __device__ __forceinline__ std::uint32_t k(int stage) const {
    return q(kTiling.query_stages) + stage * kTiling.key_bytes();
  }
  __device__ __forceinline__ std::uint32_t v(int stage) const { return k(stage + kTiling.key_stages); }
  __device__ __forceinline__ std::uint32_t merged() const { return k(2 * kTiling.key_stages); }
};

template <int kRows, int kPanels>
__device__ __forceinline__ void copy_tile(std::uint32_t to, const AttentionMap& from, SharedBarrier& barrier, int row,
                                          const Division& place) {
  arrive_and_expect(barrier, kRows * kPanels * kLineBytes);
  copy_rows<kRows, kPanels>(to, from, barrier, row, place);
}

// The stage and the parity of the phase of a ring of k or v, after this number of steps.
template <HopperForwardTiling kTiling>
struct Stage {
  int stage;
  unsigned parity;
  __device__ __forceinline__ explicit Stage(int at)
      : stage(at % kTiling.key_stages), parity(static_cast<unsigned>(at / kTiling.key_stages & 1)) {}
};

// One thread: copies the queries of a tile and, step after step, its keys and values. `at` counts steps.
template <HopperForwardTiling kTiling>
__device__ __forceinline__ void load_tile(const HopperAttentionForward& attention, const SharedTiles<kTiling>& shared,
                                          Barriers<kTiling>& barriers, const Tile<kTiling>& tile, int stage, int& at) {
  const Division place = divide(static_cast<unsigned>(tile.matrix), attention.inner_count);
  copy_tile<kTiling.rows, kTiling.panels()>(shared.q(stage), attention.q, barriers.q_written[stage], tile.first_query,
                                            place);
#pragma unroll 1
  for (int step = tile.steps - 1; step >= tile.first_step; --step, ++at) {
    const Stage<kTiling> ring(at);
    barriers.k_free[ring.stage].wait(ring.parity ^ 1);
    copy_tile<kTiling.keys, kTiling.panels()>(shared.k(ring.stage), attention.k, barriers.k_written[ring.stage],
                                              step * kTiling.keys, place);
    barriers.v_free[ring.stage].wait(ring.parity ^ 1);
    copy_tile<kTiling.keys, kTiling.panels()>(shared.v(ring.stage), attention.v, barriers.v_written[ring.stage],
                                              step * kTiling.keys, place);
  }
}

// Waits until the queries' place number `at` is free.
template <HopperForwardTiling kTiling>
__device__ __forceinline__ int take_query_stage(Barriers<kTiling>& barriers, int at) {
  const int stage = at % kTiling.query_stages;
  barriers.q_free[stage].wait((at / kTiling.query_stages & 1) ^ 1);
  return stage;
}

// One thread of the last warpgroup for each stream. The number of the next tile is under way while this one is copied.
template <HopperForwardTiling kTiling>
__device__ void load_tiles(const HopperAttentionForward& attention, const SharedTiles<kTiling>& shared,
                           Barriers<kTiling>& barriers, int stream) {
  auto number = stream * gridDim.x + blockIdx.x;
  int position = 0;
#pragma unroll 1
  for (int at = 0;; ++at) {
    const int stage = take_query_stage(barriers, at);
    const Tile<kTiling> tile = barriers.tiles[stage] = Tile<kTiling>(attention, number);
    if (tile.matrix < 0) {
      barriers.q_written[stage].arrive();
      return;
    }
    const unsigned taken = atomicAdd(&next_tile, 1U);
    load_tile(attention, shared, barriers, tile, stage, position);
    if (taken == static_cast<unsigned>(attention.tiles) - 1) atomicExch(&next_tile, 0U);
    number = gridDim.x * kTiling.streams + taken;
  }
}

// One warp, where tiles are divided.
template <HopperForwardTiling kTiling>
__device__ void load_share(const HopperAttentionForward& attention, const SharedTiles<kTiling>& shared,
                           Barriers<kTiling>& barriers) {
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  const Shares shares(attention);
  const int begin = shares.begin(block, blocks);
  int remaining = shares.begin(block + 1, blocks) - begin;
  const int matrix = begin / attention.steps_of_matrix;
  int skipped = begin - matrix * attention.steps_of_matrix;  // steps of the first tile that the previous block has
  unsigned number = static_cast<unsigned>(matrix) * attention.blocks.value;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  for (;;) {  // 32 tiles at a time
    int steps = 0x3FFFFFFF;
    if (number + lane < static_cast<unsigned>(attention.tiles)) steps = Tile<kTiling>(attention, number + lane).steps;
    int sum = steps;
#pragma unroll
    for (int apart = 1; apart < kWarpLanes; apart *= 2) {
      const int other = __shfl_up_sync(kAllLanes, sum, apart);
      if (lane >= apart) sum = min(sum + other, 0x3FFFFFFF);
    }
    const unsigned ends_after = __ballot_sync(kAllLanes, sum > skipped);
    const int before = __shfl_sync(kAllLanes, sum - steps, ends_after == 0 ? 31 : __ffs(ends_after) - 1);
    const int all = __shfl_sync(kAllLanes, sum, 31);
    if (ends_after != 0) {
      number += __ffs(ends_after) - 1;
      skipped -= before;
      break;
    }
    number += kWarpLanes;
    skipped -= all;
  }
  if (lane != 0) return;
  int position = 0;
#pragma unroll 1
  for (int at = 0;; ++at, ++number) {
    const int stage = take_query_stage(barriers, at);
    Tile<kTiling> tile(attention, number);
    if (remaining == 0) tile.matrix = -1;
    const int steps = tile.steps;
    tile.steps -= skipped;
    tile.first_step = max(0, tile.steps - remaining);
    remaining -= tile.steps - tile.first_step;
    tile.part = tile.steps - tile.first_step == steps ? -1 : 2 * block + (at > 0 ? 1 : 0);
    skipped = 0;
    barriers.tiles[stage] = tile;
    if (tile.matrix < 0) {
      barriers.q_written[stage].arrive();
      return;
    }
    load_tile(attention, shared, barriers, tile, stage, position);
  }
}

}  // namespace ridgepoint::cuda
