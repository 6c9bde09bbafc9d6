// Tiles of 16-bit elements for attention: copies from global to shared memory, to fragments of products, and back.
#pragma once

#include "backends/cuda/device/exponential.cuh"
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/warp_mma.cuh"
#include "backends/cuda/attention/common/attention_rows.cuh"
#include "backends/cuda/attention/common/variants.h"

namespace ridgepoint::cuda {

// tanh with an absolute error of 3e-7.
__device__ __forceinline__ float tanh_fast(float x) { return 1 - __fdividef(2, 1 + exp2_fast(2 * kLog2E * x)); }

// A whole thread block copies kRows rows of up to kTiling.width elements.
template <int kRows, AttentionTiling kTiling>
class TileCopier {
  using Tile = SwizzledTile<kTiling.row_chunks()>;
  static constexpr int kRowsApart =
      kTiling.threads() / kTiling.row_chunks();  // distance between the rows of a thread's copies
  static_assert(kRows % kRowsApart == 0);

 public:
  __device__ explicit TileCopier(int width)
      : width_(width), row_(threadIdx.x / kTiling.row_chunks()), chunk_(threadIdx.x % kTiling.row_chunks()) {}

  // Starts an asynchronous copy of rows `stride` elements apart. Rows from `rows_left` on and elements from the width
  // on become 0.
  template <class Element>
  __device__ __forceinline__ void copy(std::uint32_t to, const Element* rows, int stride, int rows_left) const {
    if (rows_left < kRows || width_ != kTiling.width) {
      copy_chunks<false>(to, rows, stride, rows_left);
    } else if (stride != kTiling.width) {
      copy_chunks<true>(to, rows, stride, rows_left);
    } else {  // the same with constant distances
      copy_chunks<true>(to, rows, kTiling.width, rows_left);
    }
  }

  // Replaces NaN by 0 in the elements that this thread copied; it must have waited for them.
  template <class Element>
  __device__ __forceinline__ void clear_nan(char* tile) const {
    if (kTiling.width < 8 * kTiling.row_chunks() && chunk_ >= kTiling.width / 8) return;
#pragma unroll
    for (int i = 0; i < kRows / kRowsApart; ++i) {
      auto* pairs = reinterpret_cast<uint4*>(tile + Tile::offset(row_ + i * kRowsApart, chunk_));
      const uint4 x = *pairs;
      *pairs = {without_nan<Element>(x.x), without_nan<Element>(x.y), without_nan<Element>(x.z),
                without_nan<Element>(x.w)};
    }
  }

 private:
  template <bool kWhole, class Element>
  __device__ __forceinline__ void copy_chunks(std::uint32_t to, const Element* rows, int stride, int rows_left) const {
    if (kTiling.width < 8 * kTiling.row_chunks() && chunk_ >= kTiling.width / 8) return;
    const Element* from = rows + rows_apart(row_, stride) + chunk_ * 8;
#pragma unroll
    for (int i = 0; i < kRows / kRowsApart; ++i) {
      const int row = row_ + i * kRowsApart;
      const bool zeros = !kWhole && (row >= rows_left || chunk_ * 8 >= width_);
      copy_in(to + Tile::offset(row, chunk_), zeros ? rows : from + rows_apart(i * kRowsApart, stride), zeros);
    }
  }

  int width_;
  int row_, chunk_;
};

// The addresses that a lane passes to load_matrices() for 16 rows and 16 elements of a tile: as a product's first
// operand (transposed: as its second, with rows along K), or as a product's second operand, with 16 columns whose
// elements are along K (transposed: as its first).
template <class Tile>
class LaneAddresses {
 public:
  // `chunk` is even.
  static __device__ __forceinline__ LaneAddresses of_first_operand(std::uint32_t tile, int chunk = 0) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return {tile, lane % 16, chunk + lane / 16};
  }
  static __device__ __forceinline__ LaneAddresses of_second_operand(std::uint32_t tile, int chunk = 0) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return {tile, lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2};
  }

  // `row` is a multiple of 8, `chunk` is even, both are constants: the permutation then depends on the lane only.
  __device__ __forceinline__ std::uint32_t at(int row, int chunk) const {
    return pairs_[chunk % 8 / 2] + static_cast<std::uint32_t>(row * Tile::kRowBytes + chunk / 8 * 128);
  }

 private:
  __device__ __forceinline__ LaneAddresses(std::uint32_t tile, int row, int chunk) {
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs_[i] = tile + static_cast<std::uint32_t>(Tile::offset(row, chunk + 2 * i));
  }
  std::uint32_t pairs_[4];
};

template <int kCount>
__device__ __forceinline__ void set_zero(float (&sums)[kCount][4]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  }
}

// Packs the sums of two adjacent products as a first operand.
template <class Element>
__device__ __forceinline__ void pack_operand(unsigned (&operand)[4], const float (&left)[4], const float (&right)[4]) {
  operand[0] = pack<Element>(left[0], left[1]);
  operand[1] = pack<Element>(left[2], left[3]);
  operand[2] = pack<Element>(right[0], right[1]);
  operand[3] = pack<Element>(right[2], right[3]);
}

// One warp writes up to kRows rows of a tile, beginning with its row `row`, to rows `stride` elements apart.
template <class Tile, int kRows, class Element>
__device__ __forceinline__ void write_rows(const char* tile, int row, Element* to, int stride, int rows_left,
                                           int width) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int chunks = width / 8;
  for (int index = lane; index < kRows * chunks; index += 32) {
    const int at = index / chunks;
    const int chunk = index - at * chunks;
    if (at >= rows_left) break;
    *reinterpret_cast<uint4*>(to + rows_apart(at, stride) + chunk * 8) =
        *reinterpret_cast<const uint4*>(tile + Tile::offset(row + at, chunk));
  }
}

}  // namespace ridgepoint::cuda
