// The last kernels of attention's backward on Hopper: they put sums in order, add those of several thread blocks, scale
// and round. Sums lie in tiles of 64 rows and some columns, in the order of a warpgroup's registers.
#pragma once

#include "backends/cuda/device/rotation.cuh"
#include "backends/cuda/device/warpgroup_rows.cuh"
#include "backends/cuda/attention/common/attention_rows.cuh"
#include "backends/cuda/attention/wgmma/hopper_variants.h"

namespace ridgepoint::cuda {

inline constexpr int kFinishThreads = kWarpgroupThreads;
inline constexpr int kSumColumns = 64;    // of dq, that a warpgroup adds at a time
inline constexpr int kPieceColumns = 32;  // that a thread block of add_parts() has

// The first of a thread's rows in its tile; the other one is 8 rows further.
__device__ __forceinline__ int row_in_tile() {
  const int thread = static_cast<int>(threadIdx.x);
  return thread / 32 * 16 + thread % 32 / 4;
}

// Adds the same columns of `parts` tiles, `apart` floats from one another, in their order.
template <int kColumns>
__device__ __forceinline__ void sum_tiles(float (&sum)[kColumns / 2], const float* tile, int parts, long long apart) {
#pragma unroll 4
  for (int i = 0; i < parts; ++i, tile += apart) {
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const float4 x = *reinterpret_cast<const float4*>(tile + (j * kWarpgroupThreads + threadIdx.x) * 4);
      sum[4 * j] += x.x;
      sum[4 * j + 1] += x.y;
      sum[4 * j + 2] += x.z;
      sum[4 * j + 3] += x.w;
    }
  }
}

// Turns a row of the gradient of a rotated tensor back, as a Change of write_row<kWidth>(). A thread loads its cosines
// and sines long before it writes the row, because they come from afar.
template <int kWidth, class Element>
struct TurnBack {
  static constexpr int kVectors = kWidth / 32;  // of eight elements, that a thread writes

  // Of the columns of the row from `column` on, if the row exists.
  __device__ __forceinline__ void load(const AttentionBackward& attention, int row, int column, bool exists) {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    const int first = column / 2 + thread % 4 * 4;
    pairs_left = exists ? attention.pairs - first : 0;
    const auto line = static_cast<unsigned>(row * attention.pairs + first);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      cosines[i] = sines[i] = {};  // otherwise they would be live before, because the loads are conditional
      if (16 * i >= pairs_left) continue;
      cosines[i] = __ldg(reinterpret_cast<const float4*>(attention.cosines + (line + 16 * i)));
      sines[i] = __ldg(reinterpret_cast<const float4*>(attention.sines + (line + 16 * i)));
    }
  }

  __device__ __forceinline__ void operator()(uint4& elements, int i) const {
    if (16 * i >= pairs_left) return;
    rotate_pairs<Element>(elements, cosines[i], {-sines[i].x, -sines[i].y, -sines[i].z, -sines[i].w});
  }

  float4 cosines[kVectors], sines[kVectors];
  int pairs_left;
};

// A thread's two rows of a tile: columns from `column` on, of rows from `first_row` on of a matrix of `rows` rows.
template <int kColumns, class Element>
struct TileRows {
  __device__ __forceinline__ TileRows(const AttentionBackward& attention, int first_row, int rows, int column,
                                      bool is_rotated = true)
      : row(first_row + row_in_tile()), rows(rows), column(column), width(attention.width) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      turn_back[half].load(attention, row + 8 * half, column, is_rotated && row + 8 * half < rows);
    }
  }

  __device__ __forceinline__ void write(Element* matrix, int stride, const float (&sum)[kColumns / 2],
                                        float factor) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      write_row<kColumns>(matrix + rows_apart(row + 8 * half, stride) + column, sum, factor, half,
                          row + 8 * half < rows ? width - column : 0, turn_back[half]);
    }
  }

  int row, rows, column, width;
  TurnBack<kColumns, Element> turn_back[2];
};

// Tiles of dq of a block of queries: panels of 64 columns or, with 128 queries, two halves of one.
template <HopperBackwardTiling kTiling>
inline constexpr int kQueryTiles = kTiling.panels() * kTiling.rows / 64;

// dq: one thread block for each tile.
template <class Element, HopperBackwardTiling kTiling>
__device__ __forceinline__ void finish(const AttentionBackward& attention) {
  const int blocks = (attention.queries - 1) / kTiling.rows + 1;
  const auto number = static_cast<int>(blockIdx.x);
  const int tile = number % kQueryTiles<kTiling>;
  const int block = number / kQueryTiles<kTiling>;  // of all matrices
  const int matrix = block / blocks;
  const TileRows<kSumColumns, Element> rows(attention,
                                            (block - matrix * blocks) * kTiling.rows + tile / kTiling.panels() * 64,
                                            attention.queries, tile % kTiling.panels() * kSumColumns);
  float dq[kSumColumns / 2] = {};
  sum_tiles<kSumColumns>(dq, attention.dq_sums + static_cast<long long>(number) * (64 * kSumColumns), 1, 0);
  rows.write(first_row<Element>(attention.dq, attention.inner_count, matrix), attention.dq.row, dq, attention.scale);
}

// A piece of dq: the slices of its sums.
template <class Element, HopperBackwardTiling kTiling>
__device__ __forceinline__ void add_slices(const AttentionBackward& attention, int number) {
  constexpr int kPieces = kSumColumns / kPieceColumns;
  const int blocks = (attention.queries - 1) / kTiling.rows + 1;
  const int tile = number / kPieces % kQueryTiles<kTiling>;
  const int block = number / (kPieces * kQueryTiles<kTiling>);
  const int matrix = block / blocks;
  const int first_query = (block - matrix * blocks) * kTiling.rows;
  const int visible = attention.causal ? min(attention.keys, first_query + kTiling.rows) : attention.keys;
  const int used = min(attention.slices, (visible - 1) / kTiling.keys + 1);
  const long long apart = static_cast<long long>(attention.batch) * blocks * (kQueryTiles<kTiling> * 64 * kSumColumns);
  const int column = tile % kTiling.panels() * kSumColumns + number % kPieces * kPieceColumns;
  const TileRows<kPieceColumns, Element> rows(attention, first_query + tile / kTiling.panels() * 64, attention.queries,
                                              column);
  float sum[kPieceColumns / 2] = {};
  sum_tiles<kPieceColumns>(sum, attention.dq_sums + static_cast<long long>(number) * (64 * kPieceColumns), used, apart);
  rows.write(first_row<Element>(attention.dq, attention.inner_count, matrix), attention.dq.row, sum, attention.scale);
}

// A piece of dv or dk of a block of keys, if several thread blocks have parts of its sums.
template <class Element, HopperBackwardTiling kTiling>
__device__ __forceinline__ void add_chunks(const AttentionBackward& attention, int number) {
  constexpr int kGroups = HopperBackwardTiling::kGroups;
  constexpr int kPieces = kTiling.width / kPieceColumns;
  constexpr long long kTile = 64 * kTiling.width;
  const int piece = number % kPieces;
  const int tile = number / kPieces % (2 * kGroups);  // of dv and then of dk, two with 64 keys
  const int place = number / (kPieces * 2 * kGroups);
  const int groups = static_cast<int>(attention.groups.value);
  const int block = place / groups;
  const int steps = (attention.queries - 1) / kTiling.rows + 1;
  const int first = attention.causal ? block * kTiling.keys / kTiling.rows : 0;
  const int chunk = static_cast<int>(attention.chunk.value);
  const int chunks = (steps - 1 - first) / chunk + 1;
  if (chunks == 1) return;
  const int most = (steps - 1) / chunk + 1;
  const float* sums = attention.key_sums + (static_cast<long long>(place) * most * (2 * kGroups) + tile) * kTile;
  const bool is_dk = tile >= kGroups;
  const TileRows<kPieceColumns, Element> rows(attention, block * kTiling.keys + tile % kGroups * 64, attention.keys,
                                              piece * kPieceColumns, is_dk);
  float sum[kPieceColumns / 2] = {};
  sum_tiles<kPieceColumns>(sum, sums + piece * (64 * kPieceColumns), chunks, 2 * kGroups * kTile);
  const AttentionResult& result = is_dk ? attention.dk : attention.dv;
  const int matrix = (place - block * groups) * attention.summed_heads;
  rows.write(first_row_of_group<Element>(result, attention.inner_count, matrix), result.row, sum,
             is_dk ? attention.scale : 1);
}

// What thread blocks that share blocks of keys have left: one thread block for each piece of 64 rows and 32 columns, of
// dq and then of dv and dk.
template <class Element, HopperBackwardTiling kTiling>
__device__ __forceinline__ void add_parts(const AttentionBackward& attention) {
  const int blocks = (attention.queries - 1) / kTiling.rows + 1;
  const int query_pieces = attention.batch * blocks * kQueryTiles<kTiling> * (kSumColumns / kPieceColumns);
  const auto number = static_cast<int>(blockIdx.x);
  if (number < query_pieces) {
    add_slices<Element, kTiling>(attention, number);
  } else {
    add_chunks<Element, kTiling>(attention, number - query_pieces);
  }
}

}  // namespace ridgepoint::cuda
