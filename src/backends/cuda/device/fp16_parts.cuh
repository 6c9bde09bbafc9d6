// Products of fp32 operands on tensor cores with the accuracy of fp32, for one warp (docs/decisions/0011). A tile is
// scaled by a power of two so that its largest element is between 2^14 and 2^15. An element x is then the sum of two
// fp16 numbers with 11 bits of mantissa, x = x0 + x1 / 2^11, with a relative error of 2^-23. Of the four products
// between the parts of two elements, x1 y1 is omitted, which is at most 2^-22 of the result. The absolute error of an
// element is 2^-50 of the tile's largest: below 2^-27 of the largest an element keeps fewer than 24 bits, below 2^-50
// none.
// Tensor cores truncate their sums and do not round: a sum should have at most 64 terms, and longer sums are added in
// rounded fp32. An infinity or NaN becomes NaN at any scale, and does not count as the largest element.
#pragma once

#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/warp_mma.cuh"

namespace ridgepoint::cuda {

inline constexpr int kFp16Parts = 2;
inline constexpr int kScaledBits = 14;
inline constexpr float kSecondUnit = 1.0F / 2048;

// The power of two by which a tile is multiplied, and its inverse for the products; `largest` is not negative.
struct TileScale {
  float up, down;

  __device__ __forceinline__ explicit TileScale(float largest) {
    // Biased exponents; one below 2^-112 would have no inverse.
    const unsigned exponent = max(__float_as_uint(largest) >> 23, kScaledBits + 1U);
    up = __uint_as_float((254 + kScaledBits - exponent) << 23);
    down = __uint_as_float((exponent - kScaledBits) << 23);
  }
};

// NaN if x is not finite, because fmaxf() ignores NaN.
__device__ __forceinline__ float finite_or_nan(float x) { return fmaf(x, 0.0F, x); }

// The two parts of two elements, packed, x in the low half.
__device__ __forceinline__ void split(float x, float y, unsigned& first, unsigned& second) {
  first = pack<__half>(x, y);
  const float2 firsts = unpack<__half>(first);
  second = pack<__half>((x - firsts.x) / kSecondUnit, (y - firsts.y) / kSecondUnit);
}

// The first operand of a product, 16 x 16, as two parts.
using PartsOfOperand = unsigned[kFp16Parts][4];

__device__ __forceinline__ void split_operand(PartsOfOperand& operand, const float (&left)[4],
                                              const float (&right)[4]) {
  split(left[0], left[1], operand[0][0], operand[1][0]);
  split(left[2], left[3], operand[0][1], operand[1][1]);
  split(right[0], right[1], operand[0][2], operand[1][2]);
  split(right[2], right[3], operand[0][3], operand[1][3]);
}

// Loads from tiles of parts that are `part_bytes` apart in shared memory.
__device__ __forceinline__ void load_parts(PartsOfOperand& operand, std::uint32_t address, int part_bytes) {
#pragma unroll
  for (int i = 0; i < kFp16Parts; ++i) load_matrices(operand[i], address + i * part_bytes);
}
__device__ __forceinline__ void load_parts_transposed(PartsOfOperand& operand, std::uint32_t address, int part_bytes) {
#pragma unroll
  for (int i = 0; i < kFp16Parts; ++i) load_matrices_transposed(operand[i], address + i * part_bytes);
}

// Sums of kTiles adjacent products, 16 x 8 each; kTiles is even.
template <int kTiles>
class SplitSums {
 public:
  __device__ __forceinline__ SplitSums() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) firsts_[n][i] = seconds_[n][i] = 0;
    }
  }

  // Each element of b has the second operands of two tiles. Consecutive products are for different sums, which hides
  // their latency.
  __device__ __forceinline__ void multiply(const PartsOfOperand& a, const PartsOfOperand (&b)[kTiles / 2]) {
    add(seconds_, a[1], b, 0);
    add(firsts_, a[0], b, 0);
    add(seconds_, a[0], b, 1);
  }

  // Bit for bit the same as multiply() with a and b exchanged.
  __device__ __forceinline__ void multiply_exchanged(const PartsOfOperand& a, const PartsOfOperand (&b)[kTiles / 2]) {
    add(seconds_, a[0], b, 1);
    add(firsts_, a[0], b, 0);
    add(seconds_, a[1], b, 0);
  }

  __device__ __forceinline__ float operator()(int n, int i) const {
    return fmaf(seconds_[n][i], kSecondUnit, firsts_[n][i]);
  }

 private:
  static __device__ __forceinline__ void add(float (&sums)[kTiles][4], const unsigned (&a)[4],
                                             const PartsOfOperand (&b)[kTiles / 2], int part) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      cuda::multiply<__half>(sums[n], a, b[n / 2][part][n % 2 * 2], b[n / 2][part][n % 2 * 2 + 1]);
    }
  }

  float firsts_[kTiles][4], seconds_[kTiles][4];
};

// Raises `largest`, the bits of a float in shared memory, to the largest x of a warp. No x is negative or NaN.
__device__ __forceinline__ void raise_largest(unsigned* largest, float x) {
  const unsigned of_warp = __reduce_max_sync(kAllLanes, __float_as_uint(x));
  if (threadIdx.x % 32 == 0) atomicMax(largest, of_warp);
}

// A whole thread block copies kRows rows of up to kWidth fp32 elements to shared memory and splits them into tiles of
// parts. Each thread splits the elements that it copied itself, so no barrier is needed between.
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

  // Starts an asynchronous copy of rows `stride` elements apart. Rows from `rows_left` on and elements from the width
  // on become 0.
  __device__ __forceinline__ void copy(std::uint32_t to, const float* rows, int stride, int rows_left) const {
    const float* from = rows + static_cast<long long>(row_) * stride + chunk_ * 8;
    to += threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool zeros = row_ + i * kRowsApart >= rows_left || chunk_ * 8 + half * 4 >= width_;
        const long long apart = static_cast<long long>(i * kRowsApart) * stride + half * 4;
        copy_in(to + (2 * i + half) * kThreads * 16, zeros ? rows : from + apart, zeros);
      }
    }
  }

  // Raises `largest`, in shared memory, to the largest finite magnitude. The thread must have waited for its copies.
  __device__ __forceinline__ void find_largest(const char* copy, unsigned* largest) const {
    copy += threadIdx.x * 16;
    float mine = 0;
#pragma unroll
    for (int i = 0; i < 2 * kCopies; ++i) {
      const float4 x = *reinterpret_cast<const float4*>(copy + i * kThreads * 16);
      mine = fmaxf(mine, fmaxf(fabsf(finite_or_nan(x.x)), fabsf(finite_or_nan(x.y))));
      mine = fmaxf(mine, fmaxf(fabsf(finite_or_nan(x.z)), fabsf(finite_or_nan(x.w))));
    }
    raise_largest(largest, mine);
  }

  // Tiles of parts are `part_bytes` apart. kClears: elements that are not finite become 0.
  template <bool kClears = false>
  __device__ __forceinline__ void split_into_parts(const char* copy, char* tile, float scale,
                                                   int part_bytes = kPartBytes) const {
    const auto scaled = [scale](float x) {
      x *= scale;
      return kClears && x - x != 0 ? 0.0F : x;
    };
    copy += threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const float4 low = *reinterpret_cast<const float4*>(copy + 2 * i * kThreads * 16);
      const float4 high = *reinterpret_cast<const float4*>(copy + (2 * i + 1) * kThreads * 16);
      uint4 parts[kFp16Parts];
      split(scaled(low.x), scaled(low.y), parts[0].x, parts[1].x);
      split(scaled(low.z), scaled(low.w), parts[0].y, parts[1].y);
      split(scaled(high.x), scaled(high.y), parts[0].z, parts[1].z);
      split(scaled(high.z), scaled(high.w), parts[0].w, parts[1].w);
      char* to = tile + Tile::offset(row_ + i * kRowsApart, chunk_);
#pragma unroll
      for (int part = 0; part < kFp16Parts; ++part) *reinterpret_cast<uint4*>(to + part * part_bytes) = parts[part];
    }
  }

 private:
  int width_;
  int row_, chunk_;
};

}  // namespace ridgepoint::cuda
