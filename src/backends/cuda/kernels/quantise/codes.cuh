// What the kernels for codes of 8 bits share.
#pragma once

#include <bit>

#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/kernels/quantise/parameters.h"

namespace ridgepoint::cuda {
namespace {

// The next kernel may start its blocks; nothing touches memory before the previous kernel has ended.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The largest of the values of all threads, in each of them.
template <int kThreads>
__device__ __forceinline__ unsigned block_largest(unsigned value) {
  __shared__ unsigned of_warps[kThreads / kWarpLanes];
  value = __reduce_max_sync(kAllLanes, value);
  if (threadIdx.x % kWarpLanes == 0) of_warps[threadIdx.x / kWarpLanes] = value;
  __syncthreads();
  unsigned largest = 0;
#pragma unroll
  for (int warp = 0; warp < kThreads / kWarpLanes; ++warp) largest = max(largest, of_warps[warp]);
  return largest;
}

// The same of the magnitudes that the kernel before found, as bits of fp32.
template <int kThreads>
__device__ __forceinline__ float largest_share(const unsigned* __restrict__ shares, int count) {
  unsigned largest = 0;
#pragma unroll
  for (int first = 0; first < QuantiseGrid::kMostShares; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (i < count) largest = max(largest, shares[i]);
  }
  return __uint_as_float(block_largest<kThreads>(largest));
}

// A word as its lower and upper half, which take no shift.
using Halves = Packet<unsigned short, 2>;
__device__ __forceinline__ Halves halves_of(unsigned word) { return std::bit_cast<Halves>(word); }
__device__ __forceinline__ unsigned joined(const Halves& halves) { return std::bit_cast<unsigned>(halves); }

// Bytes of four rows of four columns to four columns of four rows.
__device__ __forceinline__ void transpose_bytes(const unsigned (&rows)[4], unsigned (&columns)[4]) {
  const unsigned low01 = __byte_perm(rows[0], rows[1], 0x5140), low23 = __byte_perm(rows[2], rows[3], 0x5140);
  const unsigned high01 = __byte_perm(rows[0], rows[1], 0x7362), high23 = __byte_perm(rows[2], rows[3], 0x7362);
  columns[0] = __byte_perm(low01, low23, 0x5410);
  columns[1] = __byte_perm(low01, low23, 0x7632);
  columns[2] = __byte_perm(high01, high23, 0x5410);
  columns[3] = __byte_perm(high01, high23, 0x7632);
}

// A tile of 128 rows as its columns: a word has the codes of a column in four rows. A thread makes those of four rows of
// kWidth columns, eight threads side by side.
template <int kWidth>
struct TurnedTile {
  static constexpr int kThreads = 256;
  static constexpr int kAcross = 8;
  static constexpr int kRows = kThreads / kAcross * 4;
  static constexpr int kColumns = kAcross * kWidth;
  static constexpr int kWords = kRows / 4;  // of a column

  // Threads that store words and threads that read four of them both use all banks at once.
  uint4 words[kColumns * kWords / 4];

  // The codes of the thread's four rows in its columns from 4 `part` on.
  __device__ __forceinline__ void put(int part, const unsigned (&rows)[4]) {
    unsigned columns[4];
    transpose_bytes(rows, columns);
    const int across = static_cast<int>(threadIdx.x) % kAcross;
    const int word = static_cast<int>(threadIdx.x) / kAcross ^ 4 * across;
    unsigned* const to = reinterpret_cast<unsigned*>(words) + kWidth * across * kWords + word;
#pragma unroll
    for (int i = 0; i < 4; ++i) to[(4 * part + i) * kWords] = columns[i];
  }

  // Stores the tile at the codes of row `first_row` and column `first_column` of `rows` x `columns`, which are multiples
  // of 16: eight threads store the 128 bytes of a column.
  __device__ __forceinline__ void store(std::uint8_t* __restrict__ codes, int first_row, int first_column, int rows,
                                        int columns) const {
    constexpr int kStep = kThreads / kAcross;  // of the columns of a thread
    const int vector = static_cast<int>(threadIdx.x) % kAcross;
    const int column = static_cast<int>(threadIdx.x) / kAcross;
    const int row = first_row + kVectorBytes * vector;
    if (row >= rows) return;
    std::uint8_t* to = codes + static_cast<std::size_t>(first_column + column) * rows + row;
    const std::size_t step = static_cast<std::size_t>(kStep) * rows;
    const uint4* const from = words + column * (kWords / 4);
#pragma unroll
    for (int i = 0; i < kColumns / kStep; ++i) {
      if (first_column + column + kStep * i >= columns) return;
      const int across = column / kWidth + kStep / kWidth * i;
      *reinterpret_cast<uint4*>(to) = from[kStep * i * (kWords / 4) + (vector ^ across)];
      to += step;
    }
  }
};

}  // namespace
}  // namespace ridgepoint::cuda
