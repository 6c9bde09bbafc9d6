// Tiles of the kernels of linear attention: in shared memory, in the workspace, and as sums in registers, and the
// products of such tiles. Matrix products of bf16 and fp16 are of the tensor cores (mma.sync) with sums in fp32, those
// of fp32 and fp64 are FMA. Every sum has one order, so results are bit for bit reproducible.
#pragma once

#include <type_traits>

#include "backends/cuda/attention/linear/parameters.h"
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/warp_mma.cuh"

namespace ridgepoint::cuda {
namespace {

constexpr int kThreads = LinearTiling::kThreads, kWarps = kThreads / kWarpLanes;

template <class E>
inline constexpr bool kIsLow = sizeof(E) == 2;
template <class E>
inline constexpr int kPad = 16 / static_cast<int>(sizeof(E));
// The elements from one row of a tile in shared memory to the next.
template <class E, int kColumns>
inline constexpr int kStride = kColumns + kPad<E>;

__device__ __forceinline__ int warp_number() { return static_cast<int>(threadIdx.x) / kWarpLanes; }
__device__ __forceinline__ int lane_number() { return static_cast<int>(threadIdx.x) % kWarpLanes; }

template <class E>
__device__ __forceinline__ Accumulator<E> exponential(Accumulator<E> x) {
  if constexpr (kIsLow<E>) return __expf(x);
  return exp(x);
}

template <class E>
__device__ __forceinline__ void store_pair(E* to, Accumulator<E> x, Accumulator<E> y) {
  if constexpr (kIsLow<E>) {
    *reinterpret_cast<unsigned*>(to) = pack<E>(x, y);
  } else {
    *reinterpret_cast<Packet<E, 2>*>(to) = {x, y};
  }
}
template <class E>
__device__ __forceinline__ Packet<Accumulator<E>, 2> load_pair(const E* from) {
  if constexpr (kIsLow<E>) {
    const float2 pair = unpack<E>(*reinterpret_cast<const unsigned*>(from));
    return {pair.x, pair.y};
  } else {
    return *reinterpret_cast<const Packet<E, 2>*>(from);
  }
}
// The same at the end of a row of `width` elements.
template <class E>
__device__ __forceinline__ void store_pair_within(E* row, int column, int width, bool in_vectors, Accumulator<E> x,
                                                  Accumulator<E> y) {
  if (in_vectors) {
    if (column < width) store_pair(row + column, x, y);
    return;
  }
  if (column < width) row[column] = convert_to<E>(x);
  if (column + 1 < width) row[column + 1] = convert_to<E>(y);
}

template <class E, class Pointer>
__device__ __forceinline__ auto matrix_of(const AttentionRows<Pointer>& rows, int matrix, int inner_count) {
  using Element = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const E, E>;
  return static_cast<Element*>(rows.data) + (matrix / inner_count) * rows.outer + (matrix % inner_count) * rows.inner;
}

// The sums [kRows,kColumns] of a block's warps: tiles of 16 x 8 as multiply() has them, tile t of warp t % kWarps.
template <class E, int kRows, int kColumns>
struct Sums {
  using Sum = Accumulator<E>;
  static constexpr int kRowTiles = kRows / 16;
  static constexpr int kTiles = kRowTiles * (kColumns / 8);
  static constexpr int kOwn = (kTiles + kWarps - 1) / kWarps;
  static constexpr bool kHasOneRow = kWarps % kRowTiles == 0;  // all tiles of a warp are in the same rows
  Sum values[kOwn][4];

  static_assert(kHasOneRow || kRowTiles % kWarps == 0);

  static __device__ __forceinline__ bool has(int i) {
    return kTiles % kWarps == 0 || warp_number() + i * kWarps < kTiles;
  }
  // The first row and column of tile warp + i kWarps, as a sum of what the warp and what i gives.
  static __device__ __forceinline__ int tile_row(int i) {
    if constexpr (kHasOneRow) {
      return warp_number() % kRowTiles * 16;
    } else {
      return warp_number() * 16 + i % (kRowTiles / kWarps) * kWarps * 16;
    }
  }
  static __device__ __forceinline__ int tile_column(int i) {
    if constexpr (kHasOneRow) {
      return warp_number() / kRowTiles * 8 + i * (kWarps / kRowTiles) * 8;
    } else {
      return i / (kRowTiles / kWarps) * 8;
    }
  }
  static __device__ __forceinline__ int row(int i) { return tile_row(i) + lane_number() / 4; }
  static __device__ __forceinline__ int column(int i) { return tile_column(i) + lane_number() % 4 * 2; }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) values[i][e] = 0;
  }
  // visit(row, column, x, y) for elements `column` and `column` + 1 of a row.
  template <class Visit>
  __device__ __forceinline__ void each(Visit visit) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (!has(i)) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        visit(row(i) + 8 * half, column(i), values[i][2 * half], values[i][2 * half + 1]);
    }
  }
};

// 32 columns of a [16,...] from `row` and `k` on, stored as [rows,k] or, transposed, [k,rows].
template <class E, bool kTransposed>
__device__ __forceinline__ void load_a(unsigned (&to)[2][4], const E* a, int stride, int row, int k) {
  const int lane = lane_number(), matrix = lane / 8;
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    const int at = k + 16 * step + matrix / 2 * 8;
    const int of = row + matrix % 2 * 8;
    if constexpr (kTransposed) {
      load_matrices_transposed(to[step], shared_address(a + (at + lane % 8) * stride + of));
    } else {
      load_matrices(to[step], shared_address(a + (of + lane % 8) * stride + at));
    }
  }
}
// 32 rows of b [...,8] from `k` and `column` on, stored as [k,columns] or, transposed, [columns,k].
template <class E, bool kTransposed>
__device__ __forceinline__ void load_b(unsigned (&to)[4], const E* b, int stride, int column, int k) {
  const int lane = lane_number(), at = k + lane / 8 * 8;
  if constexpr (kTransposed) {
    load_matrices(to, shared_address(b + (column + lane % 8) * stride + at));
  } else {
    load_matrices_transposed(to, shared_address(b + (at + lane % 8) * stride + column));
  }
}

// c += a b of tiles in shared memory, over kInner. Stored as for load_a() and load_b().
template <bool kATransposed, bool kBTransposed, int kInner, class E, int kRows, int kColumns>
__device__ __forceinline__ void add_product(Sums<E, kRows, kColumns>& c, const E* a, int a_stride, const E* b,
                                            int b_stride) {
  using C = Sums<E, kRows, kColumns>;
  if constexpr (kIsLow<E>) {
    constexpr int kUnrolled = C::kOwn > 8 ? 1 : 4;  // as registers allow
#pragma unroll kUnrolled
    for (int k = 0; k < kInner; k += 32) {
      unsigned of_a[2][4], of_b[4];
#pragma unroll
      for (int i = 0; i < C::kOwn; ++i) {
        if (!C::has(i)) continue;
        if (i == 0 || !C::kHasOneRow) load_a<E, kATransposed>(of_a, a, a_stride, C::tile_row(i), k);
        load_b<E, kBTransposed>(of_b, b, b_stride, C::tile_column(i), k);
        multiply<E>(c.values[i], of_a[0], of_b[0], of_b[1]);
        multiply<E>(c.values[i], of_a[1], of_b[2], of_b[3]);
      }
    }
  } else {
#pragma unroll 4
    for (int k = 0; k < kInner; ++k) {
#pragma unroll
      for (int i = 0; i < C::kOwn; ++i) {
        if (!C::has(i)) continue;
        const int row = C::row(i), column = C::column(i);
        const auto of_a = [&](int r) { return a[kATransposed ? k * a_stride + r : r * a_stride + k]; };
        const auto of_b = [&](int n) { return b[kBTransposed ? n * b_stride + k : k * b_stride + n]; };
#pragma unroll
        for (int e = 0; e < 4; ++e) c.values[i][e] += of_a(row + e / 2 * 8) * of_b(column + e % 2);
      }
    }
  }
}

// Calls visit(tile number, half, row, column, x, y) with the elements of a b^T, a and b with rows of kLinearSlice
// elements, for all that are in `like`.
template <class E, class Like, class Visit>
__device__ __forceinline__ void visit_product(const Like& /*like*/, const E* a, const E* b, Visit visit) {
  constexpr int kRowStride = kStride<E, kLinearSlice>;
  unsigned of_a[2][4];
#pragma unroll
  for (int i = 0; i < Like::kOwn; ++i) {
    if (!Like::has(i)) continue;
    Accumulator<E> c[4] = {};
    const int row = Like::row(i), column = Like::column(i);
    if constexpr (kIsLow<E>) {
      unsigned of_b[4];
      if (i == 0 || !Like::kHasOneRow) load_a<E, false>(of_a, a, kRowStride, Like::tile_row(i), 0);
      load_b<E, true>(of_b, b, kRowStride, Like::tile_column(i), 0);
      multiply<E>(c, of_a[0], of_b[0], of_b[1]);
      multiply<E>(c, of_a[1], of_b[2], of_b[3]);
    } else {
#pragma unroll 4
      for (int k = 0; k < kLinearSlice; ++k)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          c[e] += a[(row + e / 2 * 8) * kRowStride + k] * b[(column + e % 2) * kRowStride + k];
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) visit(i, half, row + 8 * half, column, c[2 * half], c[2 * half + 1]);
  }
}

// Copies [rows,columns] to a tile [kRows,kColumns] of shared memory and fills the rest with zeros.
template <class E, int kRows, int kColumns>
__device__ __forceinline__ void load_tile(E* to, const E* from, long long stride, int rows, int columns,
                                          bool in_vectors) {
  constexpr int kVector = kPad<E>, kVectors = kColumns / kVector;
  if (in_vectors) {
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kVectors; i += kThreads) {
      const int row = i / kVectors, column = i % kVectors * kVector;
      const bool is_inside = row < rows && column < columns;
      copy_in(shared_address(to + row * kStride<E, kColumns> + column), is_inside ? from + row * stride + column : from,
              !is_inside);
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kColumns; i += kThreads) {
    const int row = i / kColumns, column = i % kColumns;
    const bool is_inside = row < rows && column < columns;
    to[row * kStride<E, kColumns> + column] =
        is_inside ? from[row * stride + column] : convert_to<E>(Accumulator<E>{0});
  }
}
// A tile that is dense in the workspace.
template <class E, int kRows, int kColumns>
__device__ __forceinline__ void load_whole(E* to, const E* from) {
  load_tile<E, kRows, kColumns>(to, from, kColumns, kRows, kColumns, true);
}
// Starts to load `count` rows of a head of keys, or of its queries, from `first` on.
template <class E, int kChunk, int kWidth>
__device__ __forceinline__ void load_keys(E* to, const AttentionOperand& rows, const LinearAttention& p, int key_head,
                                          int first, int count) {
  load_tile<E, kChunk, kWidth>(to, matrix_of<E>(rows, key_head, p.key_heads) + 1LL * first * rows.row, rows.row, count,
                               p.key_width, p.in_vectors);
}
template <int kBytes>
__device__ __forceinline__ void load_bytes(void* to, const void* from) {
  for (int i = static_cast<int>(threadIdx.x) * 16; i < kBytes; i += kThreads * 16)
    copy_in(shared_address(static_cast<char*>(to) + i), static_cast<const char*>(from) + i, false);
}

// Where the workspace has what belongs to a head and a chunk, and to a slice of these.
template <class E, int kElements>
__device__ __forceinline__ E* of_chunk(void* array, const LinearAttention& p, int head, int chunk) {
  return static_cast<E*>(array) + (static_cast<long long>(head) * p.chunks + chunk) * kElements;
}
template <class E, int kElements>
__device__ __forceinline__ E* of_slice(void* array, const LinearAttention& p, int head, int chunk, int slice) {
  return of_chunk<E, kElements>(array, p, head, chunk * p.slices + slice) +
         static_cast<long long>(head) * p.chunks * (p.slices - 1) * kElements;
}

// Stores the sums [kRows,kColumns] of a block of a scan as slices.
template <class E, int kRows, int kColumns>
__device__ __forceinline__ void store_slices(Sums<E, kRows, kColumns>& sums, void* array, const LinearAttention& p,
                                             int head, int chunk) {
  using Sum = Accumulator<E>;
  const int first = static_cast<int>(blockIdx.x) * (kColumns / kLinearSlice);
  E* const slices = of_slice<E, kRows * kLinearSlice>(array, p, head, chunk, first);
  sums.each([&](int row, int column, Sum s, Sum t) {
    if (kColumns > kLinearSlice && first + column / kLinearSlice >= p.slices) return;
    store_pair(slices + (column / kLinearSlice * kRows + row) * kLinearSlice + column % kLinearSlice, s, t);
  });
}

// One warp: the sums of `count` numbers, and of those after `count` zeros, forwards or from the last to the first.
template <class Sum, int kChunk, bool kFromLast, class Read, class Write>
__device__ __forceinline__ void sum_up(Sum carry, Read read, Write write) {
  for (int base = 0; base < kChunk; base += kWarpLanes) {
    const int step = base + lane_number();
    const int i = kFromLast ? kChunk - 1 - step : step;
    Sum x = step < kChunk ? read(i) : Sum{0};
#pragma unroll
    for (int distance = 1; distance < kWarpLanes; distance *= 2) {
      const Sum before = __shfl_up_sync(kAllLanes, x, distance);
      if (lane_number() >= distance) x += before;
    }
    x += carry;
    if (step < kChunk) write(i, x);
    carry = __shfl_sync(kAllLanes, x, kWarpLanes - 1);
  }
}

}  // namespace
}  // namespace ridgepoint::cuda
