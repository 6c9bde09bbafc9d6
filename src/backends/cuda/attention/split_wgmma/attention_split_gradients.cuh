// What the backward kernels of fp32 attention for Hopper share: the kernel before them, and sums of dq.
#pragma once

#include "backends/cuda/attention/common/attention_products.cuh"
#include "backends/cuda/attention/split_wgmma/attention_split_backward_loads.cuh"

namespace ridgepoint::cuda {

// Splits the tiles of queries of the gradient of o or of q.
template <HopperSplitBackwardTiling kTiling>
__device__ __forceinline__ void split_queries(const AttentionBackward& attention, const AttentionOperand& from,
                                              const AttentionParts& to) {
  const int tile = static_cast<int>(blockIdx.x);
  const int tiles = (attention.queries - 1) / kTiling.rows + 1;
  const int matrix = tile / tiles;
  if (matrix >= attention.batch) return;
  split_tile<kTiling.rows, kTiling.width, kTiling.parts, Scales::of_tile, false>(
      first_row<float>(from, attention.inner_count, matrix), from.row, (tile - matrix * tiles) * kTiling.rows,
      attention.queries, attention.width,
      to.tiles + static_cast<long long>(tile) * KeyBlock<kTiling>::QueryTile::kBytes, to.largest + tile);
}

// Splits the blocks of keys of k or of v.
template <HopperSplitBackwardTiling kTiling, bool kClears>
__device__ __forceinline__ void split_keys(const HopperSplitBackward& attention, const AttentionOperand& from,
                                           const AttentionParts& to) {
  const AttentionBackward& rest = attention.rest;
  const int tile = static_cast<int>(blockIdx.x);
  const int tiles = (rest.keys - 1) / kTiling.keys + 1;
  const int matrix = tile / tiles;
  if (matrix >= attention.key_batch) return;
  split_tile<kTiling.keys, kTiling.width, kTiling.parts, Scales::of_tile, kClears>(
      first_row<float>(from, rest.inner_count, matrix * static_cast<int>(from.group.value)), from.row,
      (tile - matrix * tiles) * kTiling.keys, rest.keys, rest.width,
      to.tiles + static_cast<long long>(tile) * KeyBlock<kTiling>::KeyTile::kBytes, to.largest + tile);
}

// By the second index of the grid: splits the gradient of o, q, k or v, or computes sum(do o).
template <HopperSplitBackwardTiling kTiling>
__device__ __forceinline__ void prepare(const HopperSplitBackward& attention) {
  const AttentionBackward& rest = attention.rest;
  switch (blockIdx.y) {
    case 0:
      return split_queries<kTiling>(rest, rest.d_o, attention.d_o);
    case 1:
      return split_queries<kTiling>(rest, rest.q, attention.q);
    case 2:
      // If a key is not finite, the log-sum-exp of every query that attends to it is NaN, and so are their gradients.
      // A masked query would get 0 NaN = NaN in dq, so such elements of k become 0.
      return split_keys<kTiling, true>(attention, rest.k, attention.k);
    case 3:
      return split_keys<kTiling, false>(attention, rest.v, attention.v);
    default:
      return prepare_backward<float>(rest, (rest.queries - 1) / kTiling.rows + 1);
  }
}

// A thread block: takes a block of keys, and gives the warpgroups their work. `readers`: the warps that read a half of
// q and do.
template <HopperSplitBackwardTiling kTiling, class KeyGroup>
__device__ __forceinline__ void differentiate(const HopperSplitBackward& attention, unsigned readers) {
  extern __shared__ __align__(1024) char dynamic[];
  auto& shared = *reinterpret_cast<Shared<kTiling>*>(dynamic);
  static_assert(sizeof(shared) <= HopperSplitBackwardTiling::kStateBytes);
  const SharedTiles<kTiling> tiles{shared_address(dynamic) + HopperSplitBackwardTiling::kStateBytes};
  if (threadIdx.x == 0) initialise_barriers(shared, readers);
  const unsigned number = take_number(attention.rest.started, gridDim.x, tiles.k);
  if (threadIdx.x == 0) shared.block = KeyBlock<kTiling>(attention.rest, number);
  __syncthreads();
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (group == kGroups) {
    release_registers<24>();
    load(attention, tiles, shared);
  } else {
    acquire_registers<240>();
    KeyGroup(attention.rest, tiles, shared, group).compute();
  }
}

// Sums of dq lie in the order of the registers of the threads that add them, tile of queries after tile.
inline constexpr int kSumsOfThread = 32;

__device__ __forceinline__ float* sums_of(const AttentionBackward& attention, int query_tile, int group) {
  const auto place = static_cast<unsigned>(query_tile * kGroups + group);
  return attention.dq_sums + static_cast<std::size_t>(place) * (kWarpgroupThreads * kSumsOfThread) +
         4 * (threadIdx.x % kWarpgroupThreads);
}

// Adds this thread's part of dq of step number `step` after that of the previous block of keys.
template <HopperSplitBackwardTiling kTiling>
__device__ __forceinline__ void add_to_sums(const AttentionBackward& attention, Shared<kTiling>& shared, int step,
                                            int group, const float (&dq)[kSumsOfThread]) {
  float* sums = sums_of(attention, shared.block.query_tile + shared.block.last - step, group);
  const Ring ring = Ring::at(step);
  shared.turn[ring.stage].wait(ring.parity);
  if (shared.block.number > 0) {
#pragma unroll
    for (int i = 0; i < kSumsOfThread / 4; ++i) {
      asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(sums + i * (4 * kWarpgroupThreads)),
                   "f"(dq[4 * i]), "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                   : "memory");
    }
  } else {
#pragma unroll
    for (int i = 0; i < kSumsOfThread / 4; ++i) {
      *reinterpret_cast<float4*>(sums + i * (4 * kWarpgroupThreads)) = {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2],
                                                                        dq[4 * i + 3]};
    }
  }
  __syncwarp();
  if (threadIdx.x % kWarpLanes == 0) shared.added[ring.stage].arrive();
}

// In the last kernel, whose threads are those that added.
__device__ __forceinline__ void read_sums(const AttentionBackward& attention, int query_tile,
                                          float (&dq)[kSumsOfThread]) {
  const float* sums = sums_of(attention, query_tile, static_cast<int>(threadIdx.x) / kWarpgroupThreads);
#pragma unroll
  for (int i = 0; i < kSumsOfThread / 4; ++i) {
    const float4 x = *reinterpret_cast<const float4*>(sums + i * (4 * kWarpgroupThreads));
    dq[4 * i] = x.x;
    dq[4 * i + 1] = x.y;
    dq[4 * i + 2] = x.z;
    dq[4 * i + 3] = x.w;
  }
}

}  // namespace ridgepoint::cuda
