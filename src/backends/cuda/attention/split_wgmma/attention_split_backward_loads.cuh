// The loading warpgroup of attention_split_backward_wgmma.cu, which draws its warps, and of the kernel for wide heads:
// blocks of keys, what is in shared
// memory, copies of tiles of parts, and the order in which blocks of keys add to dq.
#pragma once

#include "backends/cuda/device/semaphore.cuh"
#include "backends/cuda/attention/split_wgmma/attention_parts.cuh"
#include "backends/cuda/attention/split_wgmma/hopper_split_variants.h"

namespace ridgepoint::cuda {

inline constexpr int kGroups = HopperSplitBackwardTiling::kGroups;

// The scalars of a step: factors of its products, and of each query the log-sum-exp and sum(do o).
template <HopperSplitBackwardTiling kTiling>
struct StepScalars {
  float score;  // scale, without those of q and k
  float value;  // without those of v and do
  float ds_up;  // the scale of ds, without that of weights
  float of_dv, of_dk, of_dq;
  alignas(16) float log_sum_exp[kTiling.rows];
  alignas(16) float products[kTiling.rows];
};

// A block of keys of a matrix, with the number `started` among all.
template <HopperSplitBackwardTiling kTiling>
struct KeyBlock {
  using QueryTile = PartTile<kTiling.rows, kTiling.width, kTiling.parts>;
  using KeyTile = PartTile<kTiling.keys, kTiling.width, kTiling.parts>;
  int number, matrix;  // the number among those of the matrix
  int first_key;
  int first, last;           // steps of queries, taken from the last to the first
  int query_tile, key_tile;  // of the first queries of the matrix, and of the keys

  KeyBlock() = default;
  __device__ __forceinline__ KeyBlock(const AttentionBackward& attention, unsigned started) {
    const auto batch = static_cast<unsigned>(attention.batch);
    number = static_cast<int>(started / batch);
    matrix = static_cast<int>(started - number * batch);
    first_key = number * kTiling.keys;
    first = attention.causal ? first_key / kTiling.rows : 0;
    last = (attention.queries - 1) / kTiling.rows;
    query_tile = matrix * (last + 1);
    key_tile = static_cast<int>(divide(static_cast<unsigned>(matrix), attention.k.group).quotient) *
                   ((attention.keys - 1) / kTiling.keys + 1) +
               number;
  }
};

constexpr int halves_of(const HopperSplitBackwardTiling& tiling) { return tiling.width > 64 ? 2 : 1; }

template <HopperSplitBackwardTiling kTiling>
struct Shared {
  SharedBarrier keys_written;
  // Of each half of the columns; heads of 64 are one piece.
  SharedBarrier q_written[2], q_free[2];
  SharedBarrier do_written[2], do_free[2];
  SharedBarrier scalars_written, scalars_free;
  SharedBarrier turn[2], added[2];
  KeyBlock<kTiling> block;
  StepScalars<kTiling> scalars;
};

// What follows Shared, at a multiple of 1,024 bytes.
template <HopperSplitBackwardTiling kTiling>
struct SharedTiles {
  std::uint32_t k;
  __device__ __forceinline__ std::uint32_t v() const { return k + kTiling.key_bytes(); }
  __device__ __forceinline__ std::uint32_t q() const { return k + 2 * kTiling.key_bytes(); }
  __device__ __forceinline__ std::uint32_t d_o() const { return q() + kTiling.query_bytes(); }
  __device__ __forceinline__ std::uint32_t ds() const { return q() + 2 * kTiling.query_bytes(); }
};

// One thread. do is free first, after dv.
template <HopperSplitBackwardTiling kTiling>
__device__ void load_tiles(const HopperSplitBackward& attention, const KeyBlock<kTiling>& block,
                           const SharedTiles<kTiling>& tiles, Shared<kTiling>& shared) {
  using Block = KeyBlock<kTiling>;
  constexpr int kHalves = halves_of(kTiling);
  constexpr int kBytes = kTiling.query_bytes() / kHalves;
  arrive_and_expect(shared.keys_written, 2 * kTiling.key_bytes());
  const long long of_keys = static_cast<long long>(block.key_tile) * Block::KeyTile::kBytes;
  copy_parts(tiles.k, attention.k.tiles + of_keys, kTiling.key_bytes(), shared.keys_written);
  copy_parts(tiles.v(), attention.v.tiles + of_keys, kTiling.key_bytes(), shared.keys_written);
  unsigned parity = 1;
#pragma unroll 1
  for (int step = block.last; step >= block.first; --step, parity ^= 1) {
    const long long from = static_cast<long long>(block.query_tile + step) * Block::QueryTile::kBytes;
    for (int half = 0; half < kHalves; ++half) {
      shared.do_free[half].wait(parity);
      arrive_and_expect(shared.do_written[half], kBytes);
      copy_parts(tiles.d_o() + half * kBytes, attention.d_o.tiles + from + half * kBytes, kBytes,
                 shared.do_written[half]);
    }
    for (int half = 0; half < kHalves; ++half) {
      shared.q_free[half].wait(parity);
      arrive_and_expect(shared.q_written[half], kBytes);
      copy_parts(tiles.q() + half * kBytes, attention.q.tiles + from + half * kBytes, kBytes, shared.q_written[half]);
    }
  }
}

// The scale of ds is that of its bound, width max|v| max|do| + max|sum(do o)|.
template <HopperSplitBackwardTiling kTiling>
__device__ __forceinline__ void set_factors(const HopperSplitBackward& attention, const KeyBlock<kTiling>& block,
                                            int step, float largest_product, StepScalars<kTiling>& scalars) {
  const float largest_v = attention.v.largest[block.key_tile];
  const float largest_do = attention.d_o.largest[block.query_tile + step];
  const TileScale ds(kTiling.width * largest_v * largest_do + largest_product);
  scalars.ds_up = ds.up / (1 << kScaledBits);
  const float do_unit = TileScale(largest_do).down;
  scalars.of_dv = do_unit / (1 << kScaledBits);
  scalars.value = do_unit * TileScale(largest_v).down;
  const float q_unit = TileScale(attention.q.largest[block.query_tile + step]).down;
  const float k_unit = TileScale(attention.k.largest[block.key_tile]).down;
  scalars.of_dk = q_unit * ds.down;
  scalars.score = q_unit * k_unit * attention.rest.scale;
  scalars.of_dq = ds.down * k_unit * attention.rest.scale;
}

// One warp. Queries beyond the end get weight 0.
template <HopperSplitBackwardTiling kTiling>
__device__ void load_scalars(const HopperSplitBackward& attention, const KeyBlock<kTiling>& block,
                             Shared<kTiling>& shared) {
  const AttentionBackward& rest = attention.rest;
  constexpr int kCount = kTiling.rows / kWarpLanes;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const long long first_row = static_cast<long long>(block.matrix) * rest.queries;
  unsigned parity = 1;
#pragma unroll 1
  for (int step = block.last; step >= block.first; --step, parity ^= 1) {
    float log_sum_exp[kCount], products[kCount];
    float most = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int row = step * kTiling.rows + i * kWarpLanes + lane;
      const bool exists = row < rest.queries;
      log_sum_exp[i] = exists ? rest.log_sum_exp[first_row + row] : INFINITY;
      products[i] = exists ? rest.products[first_row + row] : 0;
      most = fmaxf(most, fabsf(finite_or_nan(products[i])));
    }
    most = __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(most)));
    shared.scalars_free.wait(parity);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      shared.scalars.log_sum_exp[i * kWarpLanes + lane] = log_sum_exp[i];
      shared.scalars.products[i * kWarpLanes + lane] = products[i];
    }
    if (lane == 0) set_factors(attention, block, step, most, shared.scalars);
    __syncwarp();
    if (lane == 0) shared.scalars_written.arrive();
  }
}

template <HopperSplitBackwardTiling kTiling>
__device__ __forceinline__ unsigned* semaphore_of(const AttentionBackward& attention, const KeyBlock<kTiling>& block,
                                                  int step) {
  return attention.semaphores + block.query_tile + step;
}

// One thread. Opens the turn of a step when the previous block of keys has added to its sums.
template <HopperSplitBackwardTiling kTiling>
__device__ void open_turns(const AttentionBackward& attention, const KeyBlock<kTiling>& block,
                           Shared<kTiling>& shared) {
  Ring ring;
#pragma unroll 1
  for (int step = block.last; step >= block.first; --step, ring.advance()) {
    shared.added[ring.stage].wait(ring.parity ^ 1);
    if (block.number > 0) {
      wait_for_semaphore(semaphore_of(attention, block, step), static_cast<unsigned>(block.number));
    }
    shared.turn[ring.stage].arrive();
  }
}

// One thread. Lets the next block of keys add to the sums of a step, and then opens the turn two steps later.
template <HopperSplitBackwardTiling kTiling>
__device__ void end_turns(const AttentionBackward& attention, const KeyBlock<kTiling>& block, Shared<kTiling>& shared) {
  for (SharedBarrier& turn : shared.turn) turn.arrive();
  Ring ring;
#pragma unroll 1
  for (int step = block.last; step >= block.first; --step, ring.advance()) {
    shared.added[ring.stage].wait(ring.parity);
    release_semaphore(semaphore_of(attention, block, step));
    shared.turn[ring.stage].arrive();
  }
}

// One thread: initialises the barriers. `readers`: the warps that read a half of q and do.
template <HopperSplitBackwardTiling kTiling>
__device__ __forceinline__ void initialise_barriers(Shared<kTiling>& shared, unsigned readers) {
  constexpr unsigned kWarps = kGroups * kWarpsOfGroup;
  shared.keys_written.initialise(1);
  shared.scalars_written.initialise(1);
  shared.scalars_free.initialise(kWarps);
  for (int i = 0; i < 2; ++i) {
    shared.q_written[i].initialise(1);
    shared.q_free[i].initialise(readers);
    shared.do_written[i].initialise(1);
    shared.do_free[i].initialise(readers);
    shared.turn[i].initialise(2);
    shared.added[i].initialise(kWarps);
  }
  publish_barriers();
}

// The work of a warp of the loading warpgroup.
template <HopperSplitBackwardTiling kTiling>
__device__ __forceinline__ void load(const HopperSplitBackward& attention, const SharedTiles<kTiling>& tiles,
                                     Shared<kTiling>& shared) {
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
  const KeyBlock<kTiling>& block = shared.block;
  if (thread == 0) load_tiles<kTiling>(attention, block, tiles, shared);
  if (thread / kWarpLanes == 1) load_scalars<kTiling>(attention, block, shared);
  if (thread == 2 * kWarpLanes) open_turns<kTiling>(attention.rest, block, shared);
  if (thread == 3 * kWarpLanes) end_turns<kTiling>(attention.rest, block, shared);
}

}  // namespace ridgepoint::cuda
