// The last kernel of attention's forward on Hopper where tiles are divided among thread blocks.
#pragma once

#include "backends/cuda/device/warpgroup_rows.cuh"
#include "backends/cuda/attention/wgmma/attention_forward_loads.cuh"

namespace ridgepoint::cuda {

// Puts the parts of a tile together: 64 rows and 32 columns, 128 threads. `blocks`: of the launch that made them.
template <class Element, HopperForwardTiling kTiling>
__device__ __forceinline__ void combine(const HopperAttentionForward& attention, int blocks) {
  constexpr int kColumns = 32;
  constexpr int kPieces = kTiling.width / kColumns;
  constexpr int kGroups = kTiling.rows / 64;
  const int piece = static_cast<int>(blockIdx.x) % kPieces;
  const int group = static_cast<int>(blockIdx.x) / kPieces % kGroups;
  const int number = static_cast<int>(blockIdx.x) / (kPieces * kGroups);
  const Tile<kTiling> tile(attention, static_cast<unsigned>(number));
  const int place = number - tile.matrix * static_cast<int>(attention.blocks.value);
  const Shares shares(attention);
  const int begin = tile.matrix * attention.steps_of_matrix + steps_before<kTiling>(attention, place);
  const int first = shares.block_of(begin, blocks);
  const int last = shares.block_of(begin + tile.steps - 1, blocks);
  if (first == last) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int row_in_tile = group * 64 + thread / 32 * 16 + thread % 32 / 4;
  // The part of a block's first tile, or of a later one.
  const auto part_of = [&](int block) { return 2 * block + (shares.begin(block, blocks) < begin ? 1 : 0); };
  const auto log_sum_exp_of = [&](int part, int half) {
    return attention.part_log_sum_exp[part * kTiling.rows + row_in_tile + 8 * half];
  };
  float maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  for (int block = first; block <= last; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) maximum[half] = fmaxf(maximum[half], log_sum_exp_of(part_of(block), half));
  }
  float values[kColumns / 2] = {};
  for (int block = first; block <= last; ++block) {
    const int part = part_of(block);
    float weight[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      weight[half] = exp2_fast((log_sum_exp_of(part, half) - maximum[half]) * kLog2E);
      sum[half] += weight[half];
    }
    const float* from = attention.part_values +
                        static_cast<std::size_t>(part * kGroups + group) * (64 * kTiling.width) +
                        piece * (64 * kColumns) + 4 * thread;
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      const float4 x = *reinterpret_cast<const float4*>(from + i * (4 * kWarpgroupThreads));
      values[4 * i] += weight[0] * x.x;
      values[4 * i + 1] += weight[0] * x.y;
      values[4 * i + 2] += weight[1] * x.z;
      values[4 * i + 3] += weight[1] * x.w;
    }
  }
  auto* matrix = first_row<Element>(attention.o, attention.inner_count, tile.matrix) + piece * kColumns;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = tile.first_query + row_in_tile + 8 * half;
    const bool exists = row < attention.queries;
    if (thread % 4 == 0 && exists && piece == 0) {
      attention.log_sum_exp[static_cast<long long>(tile.matrix) * attention.queries + row] =
          maximum[half] + logf(sum[half]);
    }
    write_row<kColumns>(matrix + rows_apart(row, attention.o.row), values, 1 / sum[half], half,
                        exists ? attention.width - piece * kColumns : 0);
  }
}

}  // namespace ridgepoint::cuda
