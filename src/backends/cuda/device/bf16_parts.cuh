// Products of fp32 operands on the tensor cores, to the accuracy of fp32 (docs/decisions/0008), by one warp. An element
// is the exact sum of three bf16 numbers of 8 bits each; of the nine products of two elements' parts the six largest
// are summed. Tensor cores cut their sums off instead of rounding them, so the products of first parts, which hold all
// but 2^-7 of the result, are summed apart from the others; neither sum should be longer than 64, longer ones are put
// together in rounded fp32.
// An infinity has no such parts: it counts as NaN. Elements under 2^-110 lose their last bits.
#pragma once

#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/warp_mma.cuh"

namespace ridgepoint::cuda {

inline constexpr int kParts = 3;

// Two elements as the three parts of both, packed, x in the low half. Returns what is NaN when one is not finite.
__device__ __forceinline__ float split(float x, float y, unsigned& first, unsigned& second, unsigned& third) {
  const unsigned x_bits = __float_as_uint(x);
  const unsigned y_bits = __float_as_uint(y);
  first = __byte_perm(x_bits, y_bits, 0x7632);
  const float x_rest = x - __uint_as_float(x_bits & 0xFFFF0000U);
  const float y_rest = y - __uint_as_float(y_bits & 0xFFFF0000U);
  second = pack<__nv_bfloat16>(x_rest, y_rest);
  const float x_last = x_rest - __uint_as_float(second << 16);
  const float y_last = y_rest - __uint_as_float(second & 0xFFFF0000U);
  third = __byte_perm(__float_as_uint(x_last), __float_as_uint(y_last), 0x7632);
  return x_rest + y_rest;
}

// Eight elements likewise, each part in a vector.
__device__ __forceinline__ float split(const float4& low, const float4& high, uint4 (&parts)[kParts]) {
  return split(low.x, low.y, parts[0].x, parts[1].x, parts[2].x) +
         split(low.z, low.w, parts[0].y, parts[1].y, parts[2].y) +
         split(high.x, high.y, parts[0].z, parts[1].z, parts[2].z) +
         split(high.z, high.w, parts[0].w, parts[1].w, parts[2].w);
}

// The first operand of products, 16 x 16, in three parts.
using PartsOfOperand = unsigned[kParts][4];

__device__ __forceinline__ void split_operand(PartsOfOperand& operand, const float (&left)[4],
                                              const float (&right)[4]) {
  split(left[0], left[1], operand[0][0], operand[1][0], operand[2][0]);
  split(left[2], left[3], operand[0][1], operand[1][1], operand[2][1]);
  split(right[0], right[1], operand[0][2], operand[1][2], operand[2][2]);
  split(right[2], right[3], operand[0][3], operand[1][3], operand[2][3]);
}

// From tiles of parts that lie `part_bytes` apart in shared memory.
__device__ __forceinline__ void load_parts(PartsOfOperand& operand, std::uint32_t address, int part_bytes) {
#pragma unroll
  for (int i = 0; i < kParts; ++i) load_matrices(operand[i], address + i * part_bytes);
}
__device__ __forceinline__ void load_parts_transposed(PartsOfOperand& operand, std::uint32_t address, int part_bytes) {
#pragma unroll
  for (int i = 0; i < kParts; ++i) load_matrices_transposed(operand[i], address + i * part_bytes);
}

// Sums of products side by side, 16 x 8 each, an even number.
template <int kTiles>
class SplitSums {
 public:
  __device__ __forceinline__ SplitSums() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) firsts_[n][i] = rests_[n][i] = 0;
    }
  }

  // b holds the tiles' second operands, two in each. The smallest products first; between two of one sum lie others, as
  // products take long.
  __device__ __forceinline__ void multiply(const PartsOfOperand& a, const PartsOfOperand (&b)[kTiles / 2]) {
    add(rests_, a[2], b, 0);
    add(rests_, a[0], b, 2);
    add(rests_, a[1], b, 1);
    add(firsts_, a[0], b, 0);
    add(rests_, a[1], b, 0);
    add(rests_, a[0], b, 1);
  }

  __device__ __forceinline__ float operator()(int n, int i) const { return firsts_[n][i] + rests_[n][i]; }

 private:
  static __device__ __forceinline__ void add(float (&sums)[kTiles][4], const unsigned (&a)[4],
                                             const PartsOfOperand (&b)[kTiles / 2], int part) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const unsigned(&pair)[4] = b[n / 2][part];
      cuda::multiply<__nv_bfloat16>(sums[n], a, pair[n % 2 * 2], pair[n % 2 * 2 + 1]);
    }
  }

  float firsts_[kTiles][4], rests_[kTiles][4];
};

// Brings kRows rows of up to kWidth fp32 elements into shared memory as three tiles of parts, by a whole block. Copies
// go through a place where every thread has its own part: what it copied, it takes apart, so that no barrier comes
// between.
template <int kRows, int kWidth, int kThreads>
class SplitCopier {
  static constexpr int kRowChunks = kWidth / 8;  // of eight elements
  static constexpr int kRowsApart = kThreads / kRowChunks;
  static constexpr int kCopies = kRows / kRowsApart;
  static_assert(kRows % kRowsApart == 0);
  using Tile = SwizzledTile<kRowChunks>;

 public:
  static constexpr int kCopyBytes = kRows * kWidth * static_cast<int>(sizeof(float));
  static constexpr int kPartBytes = kRows * Tile::kRowBytes;

  __device__ __forceinline__ explicit SplitCopier(int width)
      : width_(width),
        row_(static_cast<int>(threadIdx.x) / kRowChunks),
        chunk_(static_cast<int>(threadIdx.x) % kRowChunks) {}

  // Rows from `rows_left` on and elements from the width on are zero. Asynchronous.
  __device__ __forceinline__ void copy(std::uint32_t to, const float* rows, int rows_left) const {
    const float* from = rows + row_ * width_ + chunk_ * 8;
    to += threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool zeros = row_ + i * kRowsApart >= rows_left || chunk_ * 8 + half * 4 >= width_;
        copy_in(to + (2 * i + half) * kThreads * 16, zeros ? rows : from + i * kRowsApart * width_ + half * 4, zeros);
      }
    }
  }

  // After the thread's own wait. Tiles of parts lie `part_bytes` apart.
  __device__ __forceinline__ void take_apart(const char* copy, char* tile, int part_bytes = kPartBytes) const {
    copy += threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const float4 low = *reinterpret_cast<const float4*>(copy + 2 * i * kThreads * 16);
      const float4 high = *reinterpret_cast<const float4*>(copy + (2 * i + 1) * kThreads * 16);
      uint4 parts[kParts];
      split(low, high, parts);
      char* to = tile + Tile::offset(row_ + i * kRowsApart, chunk_);
#pragma unroll
      for (int part = 0; part < kParts; ++part) *reinterpret_cast<uint4*>(to + part * part_bytes) = parts[part];
    }
  }

 private:
  int width_;
  int row_, chunk_;
};

}  // namespace ridgepoint::cuda
