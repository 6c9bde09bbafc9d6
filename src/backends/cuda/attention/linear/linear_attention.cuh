// linear_attention and its derivative in chunks of tokens; the formulas are in ops/rules/linear_attention.cpp. Matrix
// products of bf16 and fp16 are of the tensor cores (mma.sync) with sums in fp32, those of fp32 and fp64 are FMA. Every
// sum has one order, so results are bit for bit reproducible.
//
// prepare     (chunks, key heads): sums of g, D q k^T, and the inverse of I + A for every chunk of the heads of a key
// head forward     (slices, heads): the state, one or two slices of its columns, from chunk to chunk; o states      the
// same without o: for the derivative, the state before each chunk and w reverse     (slices, heads): the gradient of
// the state, from the last chunk to the first; dv gradients   (chunks, key heads): dq, dk, dg and d_beta, summed over
// the heads of a key head
#pragma once

#include <type_traits>

#include "backends/cuda/attention/linear/parameters.h"
#include "backends/cuda/device/packet.cuh"
#include "backends/cuda/device/warp_mma.cuh"

namespace ridgepoint::cuda {
namespace {

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
template <class E, int kRows, int kColumns, int kWarps>
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
template <bool kATransposed, bool kBTransposed, int kInner, class E, int kRows, int kColumns, int kWarps>
__device__ __forceinline__ void add_product(Sums<E, kRows, kColumns, kWarps>& c, const E* a, int a_stride, const E* b,
                                            int b_stride) {
  using C = Sums<E, kRows, kColumns, kWarps>;
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
template <class E, int kRows, int kColumns, int kThreads>
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
template <class E, int kRows, int kColumns, int kThreads>
__device__ __forceinline__ void load_whole(E* to, const E* from) {
  load_tile<E, kRows, kColumns, kThreads>(to, from, kColumns, kRows, kColumns, true);
}
template <int kBytes, int kThreads>
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
template <class E, int kRows, int kColumns, int kWarps>
__device__ __forceinline__ void store_slices(Sums<E, kRows, kColumns, kWarps>& sums, void* array,
                                             const LinearAttention& p, int head, int chunk) {
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

// From one row of a square in the type of the sums to the next.
template <int kChunk>
inline constexpr int kSumRow = kChunk + 4;

// x = (I + a)^-1 for strictly lower a, both [kChunk,kChunk]. Blocks of 16 on the diagonal first, a column for each
// thread, then block row after block row: x_ij = -x_ii sum of a_ik x_kj, four columns for each thread. Overwrites a;
// above the diagonal blocks x is not written.
template <class Sum, int kChunk, int kThreads>
__device__ __forceinline__ void invert(Sum* a, Sum* x) {
  using Four = Packet<Sum, 4>;
  constexpr int kRow = kSumRow<kChunk>, kBlock = 16;
  static_assert(kBlock * (kChunk - kBlock) / 4 <= kThreads);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kChunk) {
    const int first = thread / kBlock * kBlock, column = thread % kBlock;
    Sum own[kBlock];
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      own[i] = i == column ? Sum{1} : Sum{0};
#pragma unroll
      for (int k = 0; k < i; ++k) own[i] -= a[(first + i) * kRow + first + k] * own[k];
      x[(first + i) * kRow + first + column] = own[i];
    }
  }
  __syncthreads();
  for (int block = kBlock; block < kChunk; block += kBlock) {
    const int row = thread / (block / 4), column = thread % (block / 4) * 4;
    const bool has_work = row < kBlock;
    // The sum over k of left[k] right[k kRow + column].
    const auto sum_of = [&](const Sum* left, const Sum* right, int from, int to) {
      Four sums = {};
#pragma unroll 4
      for (int k = from; k < to; ++k) {
        const Four four = *reinterpret_cast<const Four*>(right + k * kRow + column);
#pragma unroll
        for (int n = 0; n < 4; ++n) sums.values[n] += left[k] * four.values[n];
      }
      return sums;
    };
    Four sums = {};
    if (has_work) sums = sum_of(a + (block + row) * kRow, x, column / kBlock * kBlock, block);
    __syncthreads();
    if (has_work) *reinterpret_cast<Four*>(a + (block + row) * kRow + column) = sums;
    __syncthreads();
    if (has_work) {
      sums = sum_of(x + (block + row) * kRow + block, a + block * kRow, 0, row + 1);
#pragma unroll
      for (int n = 0; n < 4; ++n) x[(block + row) * kRow + column + n] = -sums.values[n];
    }
    __syncthreads();
  }
}

// beta, not so near to 0 that dv, which is divided by it for the gradient of beta, is lost (in fp16 it is: that
// gradient is then 0, and what beta is made of, a sigmoid or an exponential, would make it as small).
template <class Sum>
__device__ __forceinline__ Sum away_from_zero(Sum beta) {
  constexpr Sum kLeast = sizeof(Sum) == 4 ? Sum(1e-18) : Sum(1e-150);
  return beta < kLeast && beta > -kLeast ? (beta < 0 ? -kLeast : kLeast) : beta;
}

template <class E, int kChunk, int kWidth>
__device__ __forceinline__ void prepare_chunk(const LinearAttention& p) {
  using Sum = Accumulator<E>;
  constexpr int kThreads = LinearTiling::kThreads, kWarps = kThreads / kWarpLanes;
  constexpr LinearTiling kTiling{kChunk, kWidth, sizeof(E)};
  constexpr int kRow = kSumRow<kChunk>;
  char* const shared = shared_of_launch();
  E* const k = reinterpret_cast<E*>(shared);
  E* const q = reinterpret_cast<E*>(shared + kTiling.key_bytes());
  Sum* const a = reinterpret_cast<Sum*>(shared + 2 * kTiling.key_bytes());
  Sum* const x = a + kChunk * kRow;
  Sum* const decay = x + kChunk * kRow;
  Sum* const beta = decay + kChunk;

  const int chunk = static_cast<int>(blockIdx.x), key_head = static_cast<int>(blockIdx.y);
  const int first = chunk * kChunk, count = min(kChunk, p.tokens - first);
  load_tile<E, kChunk, kWidth, kThreads>(k, matrix_of<E>(p.k, key_head, p.key_heads) + 1LL * first * p.k.row, p.k.row,
                                         count, p.key_width, p.in_vectors);
  load_tile<E, kChunk, kWidth, kThreads>(q, matrix_of<E>(p.q, key_head, p.key_heads) + 1LL * first * p.q.row, p.q.row,
                                         count, p.key_width, p.in_vectors);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
  Sums<E, kChunk, kChunk, kWarps> of_q, of_k;
  of_q.clear();
  of_k.clear();
  add_product<false, true, kWidth>(of_q, q, kStride<E, kWidth>, k, kStride<E, kWidth>);
  if (p.delta) add_product<false, true, kWidth>(of_k, k, kStride<E, kWidth>, k, kStride<E, kWidth>);

  const int group = p.heads / p.key_heads;
  for (int head = key_head * group; head < (key_head + 1) * group; ++head) {
    const Sum* const g = static_cast<const Sum*>(p.g) + 1LL * head * p.tokens + first;
    const Sum* const betas = static_cast<const Sum*>(p.beta) + 1LL * head * p.tokens + first;
    Sum* const kept = of_chunk<Sum, 2 * kChunk>(p.decays, p, head, chunk);
    if (warp_number() == 0) {
      sum_up<Sum, kChunk, false>(
          Sum{0}, [&](int i) { return i < count ? g[i] : Sum{0}; }, [&](int i, Sum sum) { decay[i] = kept[i] = sum; });
    } else if (const int i = static_cast<int>(threadIdx.x) - kWarpLanes; i < kChunk) {
      beta[i] = kept[kChunk + i] = away_from_zero(i < count ? betas[i] : Sum{0});
    }
    __syncthreads();
    const auto between = [&](int i, int j) { return exponential<E>(decay[i] - decay[j]); };
    E* const scores = of_chunk<E, kChunk * kChunk>(p.scores, p, head, chunk);
    of_q.each([&](int row, int column, Sum s, Sum t) {
      store_pair(scores + row * kChunk + column, column <= row ? s * between(row, column) : Sum{0},
                 column + 1 <= row ? t * between(row, column + 1) : Sum{0});
    });
    if (p.delta) {
      of_k.each([&](int row, int column, Sum s, Sum t) {
        a[row * kRow + column] = column < row ? s * between(row, column) * beta[column] : Sum{0};
        a[row * kRow + column + 1] = column + 1 < row ? t * between(row, column + 1) * beta[column + 1] : Sum{0};
      });
      __syncthreads();
      invert<Sum, kChunk, kThreads>(a, x);
      E* const inverse = of_chunk<E, kChunk * kChunk>(p.inverses, p, head, chunk);
      for (int i = 2 * static_cast<int>(threadIdx.x); i < kChunk * kChunk; i += 2 * kThreads) {
        const int row = i / kChunk, column = i % kChunk;
        store_pair(inverse + i, column <= row ? x[row * kRow + column] : Sum{0},
                   column + 1 <= row ? x[row * kRow + column + 1] : Sum{0});
      }
    }
    __syncthreads();
  }
}

// What a block of a scan has of a chunk in shared memory.
template <class E, int kChunk, int kWidth, int kColumns, bool kHasQueries>
struct ScanStage {
  using Sum = Accumulator<E>;
  static constexpr LinearTiling kTiling{kChunk, kWidth, sizeof(E)};
  E *k, *q, *values, *scores, *inverse;
  Sum *decay, *beta;

  __device__ __forceinline__ ScanStage(char* shared, bool delta) {
    const auto take = [&](int bytes) {
      char* const taken = shared;
      shared += bytes;
      return taken;
    };
    k = reinterpret_cast<E*>(take(kTiling.key_bytes()));
    q = reinterpret_cast<E*>(take(kHasQueries ? kTiling.key_bytes() : 0));
    values = reinterpret_cast<E*>(take(kTiling.value_bytes(kColumns)));
    scores = reinterpret_cast<E*>(take(kHasQueries ? kTiling.square_bytes() : 0));
    inverse = reinterpret_cast<E*>(take(delta ? kTiling.square_bytes() : 0));
    decay = reinterpret_cast<Sum*>(take(kTiling.decay_bytes()));
    beta = decay + kChunk;
  }
  __device__ __forceinline__ Sum factor(int i) const { return exponential<E>(decay[i]); }
  __device__ __forceinline__ Sum to_end(int i) const { return exponential<E>(decay[kChunk - 1] - decay[i]); }

  // Starts to load a chunk; `rows` are those of v or of the gradient of o.
  __device__ __forceinline__ void load(const LinearAttention& p, const AttentionOperand& rows, int head, int slice,
                                       int chunk) const {
    constexpr int kThreads = LinearTiling::kThreads;
    const int first = chunk * kChunk, count = min(kChunk, p.tokens - first);
    const int key_head = head / (p.heads / p.key_heads);
    load_tile<E, kChunk, kWidth, kThreads>(k, matrix_of<E>(p.k, key_head, p.key_heads) + 1LL * first * p.k.row, p.k.row,
                                           count, p.key_width, p.in_vectors);
    load_tile<E, kChunk, kColumns, kThreads>(
        values, matrix_of<E>(rows, head, p.heads) + 1LL * first * rows.row + slice * kColumns, rows.row, count,
        p.value_width - slice * kColumns, p.in_vectors);
    if (p.delta)
      load_whole<E, kChunk, kChunk, kThreads>(inverse, of_chunk<E, kChunk * kChunk>(p.inverses, p, head, chunk));
    if constexpr (kHasQueries) {
      load_tile<E, kChunk, kWidth, kThreads>(q, matrix_of<E>(p.q, key_head, p.key_heads) + 1LL * first * p.q.row,
                                             p.q.row, count, p.key_width, p.in_vectors);
      load_whole<E, kChunk, kChunk, kThreads>(scores, of_chunk<E, kChunk * kChunk>(p.scores, p, head, chunk));
    }
    load_bytes<kTiling.decay_bytes(), kThreads>(decay, of_chunk<Sum, 2 * kChunk>(p.decays, p, head, chunk));
    end_copies();
  }
};

// The shared memory of a scan behind its stages: the state or its gradient, and three tiles of values.
template <class E, int kChunk, int kWidth, int kColumns, bool kHasQueries>
struct ScanTiles {
  E *state, *first, *second, *third;

  __device__ __forceinline__ ScanTiles(char* shared, const LinearAttention& p) {
    constexpr LinearTiling kTiling{kChunk, kWidth, sizeof(E)};
    shared += p.scan_stages * kTiling.scan_stage_bytes(p.delta, kHasQueries, kColumns);
    state = reinterpret_cast<E*>(shared);
    first = reinterpret_cast<E*>(shared + kTiling.state_bytes(kColumns));
    second = first + kChunk * kStride<E, kColumns>;
    third = second + kChunk * kStride<E, kColumns>;
  }
};

template <class E, int kChunk, int kWidth, int kColumns, bool kKeepsStates>
__device__ __forceinline__ void scan_forward(const LinearAttention& p) {
  using Sum = Accumulator<E>;
  using Stage = ScanStage<E, kChunk, kWidth, kColumns, !kKeepsStates>;
  constexpr int kWarps = LinearTiling::kThreads / kWarpLanes;
  constexpr int kKeyStride = kStride<E, kWidth>, kRowStride = kStride<E, kColumns>, kSquare = kStride<E, kChunk>;
  char* const shared = shared_of_launch();
  const ScanTiles<E, kChunk, kWidth, kColumns, !kKeepsStates> tiles(shared, p);
  const int slice = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  constexpr LinearTiling kTiling{kChunk, kWidth, sizeof(E)};
  const int stage_bytes = kTiling.scan_stage_bytes(p.delta, !kKeepsStates, kColumns);
  const auto stage_of = [&](int chunk) { return Stage(shared + chunk % p.scan_stages * stage_bytes, p.delta); };

  Sums<E, kWidth, kColumns, kWarps> state;
  state.clear();
  const auto share_state = [&] {
    state.each([&](int row, int column, Sum s, Sum t) { store_pair(tiles.state + row * kRowStride + column, s, t); });
  };
  share_state();
  stage_of(0).load(p, p.v, head, slice, 0);
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    wait_for_copies<0>();
    __syncthreads();
    const Stage at = stage_of(chunk);
    const bool has_next = chunk + 1 < p.chunks;
    if (p.scan_stages > 1 && has_next) stage_of(chunk + 1).load(p, p.v, head, slice, chunk + 1);
    if constexpr (kKeepsStates) store_slices(state, p.states, p, head, chunk);
    Sums<E, kChunk, kColumns, kWarps> w, o;
    w.clear();
    o.clear();
    if (p.delta) add_product<false, false, kWidth>(w, at.k, kKeyStride, tiles.state, kRowStride);
    if constexpr (!kKeepsStates) add_product<false, false, kWidth>(o, at.q, kKeyStride, tiles.state, kRowStride);
    if (p.delta) {
      w.each([&](int row, int column, Sum s, Sum t) {
        const auto v = load_pair(at.values + row * kRowStride + column);
        const Sum factor = at.factor(row);
        store_pair(tiles.first + row * kRowStride + column, v.values[0] - factor * s, v.values[1] - factor * t);
      });
      __syncthreads();
      w.clear();
      add_product<false, false, kChunk>(w, at.inverse, kSquare, tiles.first, kRowStride);
    }
    if (kKeepsStates && p.delta) store_slices(w, p.errors, p, head, chunk);
    w.each([&](int row, int column, Sum& s, Sum& t) {
      if (!p.delta) {
        const auto v = load_pair(at.values + row * kRowStride + column);
        s = v.values[0];
        t = v.values[1];
      }
      const Sum beta = at.beta[row], to_end = at.to_end(row) * beta;
      if constexpr (!kKeepsStates) store_pair(tiles.second + row * kRowStride + column, beta * s, beta * t);
      store_pair(tiles.third + row * kRowStride + column, to_end * s, to_end * t);
    });
    __syncthreads();
    if constexpr (!kKeepsStates) {
      o.each([&](int row, int, Sum& s, Sum& t) {
        const Sum factor = at.factor(row);
        s *= factor;
        t *= factor;
      });
      add_product<false, false, kChunk>(o, at.scores, kSquare, tiles.second, kRowStride);
      const Sum scale = static_cast<Sum>(p.scale);
      E* const rows = matrix_of<E>(p.o, head, p.heads) + slice * kColumns;
      o.each([&](int row, int column, Sum s, Sum t) {
        const int token = chunk * kChunk + row;
        if (token < p.tokens)
          store_pair_within(rows + 1LL * token * p.o.row, column, p.value_width - slice * kColumns, p.in_vectors,
                            scale * s, scale * t);
      });
    }
    const Sum whole = at.factor(kChunk - 1);
    state.each([&](int, int, Sum& s, Sum& t) {
      s *= whole;
      t *= whole;
    });
    add_product<true, false, kChunk>(state, at.k, kKeyStride, tiles.third, kRowStride);
    share_state();
    if (p.scan_stages == 1 && has_next) {
      __syncthreads();
      at.load(p, p.v, head, slice, chunk + 1);
    }
  }
}

template <class E, int kChunk, int kWidth, int kColumns>
__device__ __forceinline__ void scan_backward(const LinearAttention& p) {
  using Sum = Accumulator<E>;
  using Stage = ScanStage<E, kChunk, kWidth, kColumns, true>;
  constexpr int kWarps = LinearTiling::kThreads / kWarpLanes;
  constexpr int kKeyStride = kStride<E, kWidth>, kRowStride = kStride<E, kColumns>, kSquare = kStride<E, kChunk>;
  char* const shared = shared_of_launch();
  const ScanTiles<E, kChunk, kWidth, kColumns, true> tiles(shared, p);
  const int slice = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  constexpr LinearTiling kTiling{kChunk, kWidth, sizeof(E)};
  const int stage_bytes = kTiling.scan_stage_bytes(p.delta, true, kColumns);
  const auto stage_of = [&](int chunk) { return Stage(shared + chunk % p.scan_stages * stage_bytes, p.delta); };
  const Sum scale = static_cast<Sum>(p.scale);

  Sums<E, kWidth, kColumns, kWarps> gradient;  // of the state after the chunk
  gradient.clear();
  const auto share_gradient = [&] {
    gradient.each(
        [&](int row, int column, Sum s, Sum t) { store_pair(tiles.state + row * kRowStride + column, s, t); });
  };
  share_gradient();
  stage_of(p.chunks - 1).load(p, p.d_o, head, slice, p.chunks - 1);
  for (int chunk = p.chunks - 1; chunk >= 0; --chunk) {
    wait_for_copies<0>();
    __syncthreads();
    const Stage at = stage_of(chunk);
    if (p.scan_stages > 1 && chunk > 0) stage_of(chunk - 1).load(p, p.d_o, head, slice, chunk - 1);
    store_slices(gradient, p.gradients, p, head, chunk);

    Sums<E, kChunk, kColumns, kWarps> du, by_scores;
    du.clear();
    by_scores.clear();
    add_product<false, false, kWidth>(du, at.k, kKeyStride, tiles.state, kRowStride);
    add_product<true, false, kChunk>(by_scores, at.scores, kSquare, at.values, kRowStride);
#pragma unroll
    for (int i = 0; i < du.kOwn; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (!du.has(i)) continue;
        du.values[i][e] = at.to_end(du.row(i) + e / 2 * 8) * du.values[i][e] + scale * by_scores.values[i][e];
      }
    if (p.delta) {  // from the gradient of u to that of v
      du.each([&](int row, int column, Sum s, Sum t) {
        store_pair(tiles.first + row * kRowStride + column, at.beta[row] * s, at.beta[row] * t);
      });
      __syncthreads();
      du.clear();
      add_product<true, false, kChunk>(du, at.inverse, kSquare, tiles.first, kRowStride);
    }
    E* const rows = matrix_of<E>(p.dv, head, p.heads) + slice * kColumns;
    du.each([&](int row, int column, Sum s, Sum t) {
      const Sum beta = p.delta ? Sum{1} : at.beta[row], factor = at.factor(row);
      const int token = chunk * kChunk + row;
      if (token < p.tokens)
        store_pair_within(rows + 1LL * token * p.dv.row, column, p.value_width - slice * kColumns, p.in_vectors,
                          beta * s, beta * t);
      const int place = row * kRowStride + column;
      if (p.delta) store_pair(tiles.second + place, -factor * s, -factor * t);
      const auto d_o = load_pair(at.values + place);
      store_pair(tiles.third + place, scale * factor * d_o.values[0], scale * factor * d_o.values[1]);
    });
    __syncthreads();
    const Sum whole = at.factor(kChunk - 1);
    gradient.each([&](int, int, Sum& s, Sum& t) {
      s *= whole;
      t *= whole;
    });
    add_product<true, false, kChunk>(gradient, at.q, kKeyStride, tiles.third, kRowStride);
    if (p.delta) add_product<true, false, kChunk>(gradient, at.k, kKeyStride, tiles.second, kRowStride);
    share_gradient();
    if (p.scan_stages == 1 && chunk > 0) {
      __syncthreads();
      at.load(p, p.d_o, head, slice, chunk - 1);
    }
  }
}

// What a block of key_gradients() has of a head and a slice.
template <class E, int kChunk, int kWidth>
struct GradientStage {
  using Sum = Accumulator<E>;
  static constexpr LinearTiling kTiling{kChunk, kWidth, sizeof(E)};
  E *d_o, *w, *dv, *v, *state, *gradient;
  Sum *decay, *beta;

  __device__ __forceinline__ explicit GradientStage(char* shared) {
    const auto take = [&](int bytes) {
      char* const taken = shared;
      shared += bytes;
      return taken;
    };
    d_o = reinterpret_cast<E*>(take(kTiling.value_bytes()));
    w = reinterpret_cast<E*>(take(kTiling.value_bytes()));
    dv = reinterpret_cast<E*>(take(kTiling.value_bytes()));
    v = reinterpret_cast<E*>(take(kTiling.value_bytes()));
    state = reinterpret_cast<E*>(take(kTiling.state_bytes()));
    gradient = reinterpret_cast<E*>(take(kTiling.state_bytes()));
    decay = reinterpret_cast<Sum*>(take(kTiling.decay_bytes()));
    beta = decay + kChunk;
  }

  __device__ __forceinline__ void load(const LinearAttention& p, int head, int chunk, int slice) const {
    constexpr int kThreads = LinearTiling::kThreads;
    const int first = chunk * kChunk, count = min(kChunk, p.tokens - first);
    const int width = p.value_width - slice * kLinearSlice;
    const auto load_rows = [&](E* to, const auto& rows) {
      load_tile<E, kChunk, kLinearSlice, kThreads>(
          to, matrix_of<E>(rows, head, p.heads) + 1LL * first * rows.row + slice * kLinearSlice, rows.row, count, width,
          p.in_vectors);
    };
    load_rows(d_o, p.d_o);
    load_rows(v, p.v);
    load_rows(dv, p.dv);
    if (p.delta)
      load_whole<E, kChunk, kLinearSlice, kThreads>(
          w, of_slice<E, kChunk * kLinearSlice>(p.errors, p, head, chunk, slice));
    load_whole<E, kWidth, kLinearSlice, kThreads>(state,
                                                  of_slice<E, kWidth * kLinearSlice>(p.states, p, head, chunk, slice));
    load_whole<E, kWidth, kLinearSlice, kThreads>(
        gradient, of_slice<E, kWidth * kLinearSlice>(p.gradients, p, head, chunk, slice));
    load_bytes<kTiling.decay_bytes(), kThreads>(decay, of_chunk<Sum, 2 * kChunk>(p.decays, p, head, chunk));
    end_copies();
  }
};

template <class Sum>
__device__ __forceinline__ Sum sum_of_lanes(Sum x, int lanes) {
  for (int distance = 1; distance < lanes; distance *= 2) x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}

template <class E, int kChunk, int kWidth>
__device__ __forceinline__ void key_gradients(const LinearAttention& p) {
  using Sum = Accumulator<E>;
  using Stage = GradientStage<E, kChunk, kWidth>;
  constexpr LinearTiling kTiling{kChunk, kWidth, sizeof(E)};
  constexpr int kThreads = LinearTiling::kThreads, kWarps = kThreads / kWarpLanes;
  constexpr int kKeyStride = kStride<E, kWidth>, kRowStride = kStride<E, kLinearSlice>, kSquare = kStride<E, kChunk>;
  constexpr int kRowTiles = kChunk / 16, kSharers = kWarps / kRowTiles;  // warps that have the same rows
  char* const shared = shared_of_launch();
  E* const k = reinterpret_cast<E*>(shared);
  E* const q = reinterpret_cast<E*>(shared + kTiling.key_bytes());
  char* const stages = shared + 2 * kTiling.key_bytes();
  E* const of_scores = reinterpret_cast<E*>(stages + p.gradient_stages * kTiling.gradient_stage_bytes());
  E* const of_inverse = of_scores + kChunk * kSquare;
  Sum* const read_sums = reinterpret_cast<Sum*>(of_inverse + kChunk * kSquare);  // [kSharers,kChunk], of q dq
  Sum* const write_sums = read_sums + kSharers * kChunk;                         // [kChunk], of v dv
  Sum* const later_sums = write_sums + kChunk;                                   // [kWarps]

  const int chunk = static_cast<int>(blockIdx.x), key_head = static_cast<int>(blockIdx.y);
  const int first = chunk * kChunk, count = min(kChunk, p.tokens - first);
  const int group = p.heads / p.key_heads, steps = group * p.slices;
  const int warp = warp_number(), lane = lane_number();
  const Sum scale = static_cast<Sum>(p.scale);
  load_tile<E, kChunk, kWidth, kThreads>(k, matrix_of<E>(p.k, key_head, p.key_heads) + 1LL * first * p.k.row, p.k.row,
                                         count, p.key_width, p.in_vectors);
  load_tile<E, kChunk, kWidth, kThreads>(q, matrix_of<E>(p.q, key_head, p.key_heads) + 1LL * first * p.q.row, p.q.row,
                                         count, p.key_width, p.in_vectors);
  const auto stage_of = [&](int step) {
    return Stage(stages + step % p.gradient_stages * kTiling.gradient_stage_bytes());
  };
  const auto load = [&](int step) {
    stage_of(step).load(p, key_head * group + step / p.slices, chunk, step % p.slices);
  };
  load(0);

  Sums<E, kChunk, kWidth, kWarps> dq, dk;
  Sums<E, kChunk, kChunk, kWarps> d_scores, d_inverse;  // do w^T and dv w^T
  dq.clear();
  dk.clear();
  Sum read_sum[2] = {}, later = 0;
  for (int step = 0; step < steps; ++step) {
    const int head = key_head * group + step / p.slices, slice = step % p.slices;
    wait_for_copies<0>();
    __syncthreads();
    if (p.gradient_stages > 1 && step + 1 < steps) load(step + 1);
    const Stage at = stage_of(step);
    const E* const w = p.delta ? at.w : at.v;
    const auto factor = [&](int i) { return exponential<E>(at.decay[i]); };
    const auto between = [&](int i, int j) { return exponential<E>(at.decay[i] - at.decay[j]); };
    if (slice == 0) {
      d_scores.clear();
      d_inverse.clear();
      read_sum[0] = read_sum[1] = later = 0;
    }
    add_product<false, true, kLinearSlice>(d_scores, at.d_o, kRowStride, w, kRowStride);
    add_product<false, true, kLinearSlice>(d_inverse, at.dv, kRowStride, w, kRowStride);
    visit_product(dq, at.d_o, at.state, [&](int i, int half, int row, int column, Sum s, Sum t) {
      const auto of_q = load_pair(q + row * kKeyStride + column);
      const Sum by = scale * factor(row);
      dq.values[i][2 * half] += by * s;
      dq.values[i][2 * half + 1] += by * t;
      read_sum[half] += by * (of_q.values[0] * s + of_q.values[1] * t);
    });
    visit_product(dk, w, at.gradient, [&](int i, int half, int row, int column, Sum s, Sum t) {
      const auto of_k = load_pair(k + row * kKeyStride + column);
      const Sum by = between(kChunk - 1, row) * at.beta[row];
      dk.values[i][2 * half] += by * s;
      dk.values[i][2 * half + 1] += by * t;
      later += by * (of_k.values[0] * s + of_k.values[1] * t);
    });
    if (p.delta) {
      visit_product(dk, at.dv, at.state, [&](int i, int half, int row, int, Sum s, Sum t) {
        const Sum by = factor(row);
        dk.values[i][2 * half] -= by * s;
        dk.values[i][2 * half + 1] -= by * t;
      });
    }
    Sum of_states = 0;
    for (int row = warp; row < kWidth; row += kWarps)
      of_states +=
          convert_to<Sum>(at.state[row * kRowStride + lane]) * convert_to<Sum>(at.gradient[row * kRowStride + lane]);
    later += factor(kChunk - 1) * of_states;
    for (int row = warp; row < kChunk; row += kWarps) {
      const Sum of_row = sum_of_lanes(
          convert_to<Sum>(at.v[row * kRowStride + lane]) * convert_to<Sum>(at.dv[row * kRowStride + lane]), kWarpLanes);
      if (lane == 0) write_sums[row] = of_row + (slice == 0 ? Sum{0} : write_sums[row]);
    }
    if (slice + 1 == p.slices) {
      const E* const scores = of_chunk<E, kChunk * kChunk>(p.scores, p, head, chunk);
      const long long row_of_head = 1LL * head * p.tokens + first;
#pragma unroll
      for (int i = 0; i < d_scores.kOwn; ++i) {
        if (!d_scores.has(i)) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = d_scores.row(i) + 8 * half, column = d_scores.column(i);
          const auto of_row = load_pair(scores + row * kChunk + column);
          Sum by[2] = {}, of_a[2] = {};
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            if (column + e > row) continue;
            const Sum beta = at.beta[column + e], decay = between(row, column + e) * beta;
            const Sum x = d_scores.values[i][2 * half + e], y = d_inverse.values[i][2 * half + e];
            read_sum[half] += scale * beta * of_row.values[e] * x;
            by[e] = scale * decay * x;
            if (column + e < row) {
              of_a[e] = -decay * y;
            } else if (row < count) {
              static_cast<Sum*>(p.d_beta)[row_of_head + row] = y / beta;
            }
          }
          store_pair(of_scores + row * kSquare + column, by[0], by[1]);
          store_pair(of_inverse + row * kSquare + column, of_a[0], of_a[1]);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Sum of_row = sum_of_lanes(read_sum[half], 4);
        if (lane % 4 == 0) read_sums[warp / kRowTiles * kChunk + dq.row(0) + 8 * half] = of_row;
      }
      const Sum of_warp = sum_of_lanes(later, kWarpLanes);
      if (lane == 0) later_sums[warp] = of_warp;
      __syncthreads();
      add_product<false, false, kChunk>(dq, of_scores, kSquare, k, kKeyStride);
      add_product<true, false, kChunk>(dk, of_scores, kSquare, q, kKeyStride);
      if (p.delta) {
        add_product<false, false, kChunk>(dk, of_inverse, kSquare, k, kKeyStride);
        add_product<true, false, kChunk>(dk, of_inverse, kSquare, k, kKeyStride);
      }
      if (warp == 0) {
        Sum carry = 0;
        for (int i = 0; i < kWarps; ++i) carry += later_sums[i];
        const auto of_token = [&](int i) {
          Sum sum = -write_sums[i];
          for (int sharer = 0; sharer < kSharers; ++sharer) sum += read_sums[sharer * kChunk + i];
          return sum;
        };
        sum_up<Sum, kChunk, true>(carry, of_token, [&](int i, Sum sum) {
          // Before the first token there is no state to decay: its sum is of roundings.
          if (i < count) static_cast<Sum*>(p.dg)[row_of_head + i] = first + i == 0 ? Sum{0} : sum;
        });
      }
    }
    if (p.gradient_stages == 1 && step + 1 < steps) {
      __syncthreads();
      load(step + 1);
    }
  }
  const auto store = [&](auto& sums, const AttentionResult& result) {
    E* const rows = matrix_of<E>(result, key_head, p.key_heads) + 1LL * first * result.row;
    sums.each([&](int row, int column, Sum s, Sum t) {
      if (row < count) store_pair_within(rows + 1LL * row * result.row, column, p.key_width, p.in_vectors, s, t);
    });
  };
  store(dq, p.dq);
  store(dk, p.dk);
}

}  // namespace
}  // namespace ridgepoint::cuda

// The scans of blocks of `columns` columns.
#define RIDGEPOINT_LINEAR_SCANS(name, E, chunk, width, columns)                                              \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                       \
      linear_attention_forward_chunked_##name(const __grid_constant__ ridgepoint::cuda::LinearAttention p) { \
    ridgepoint::cuda::scan_forward<E, chunk, width, columns, false>(p);                                      \
  }                                                                                                          \
  extern "C" __global__ void __launch_bounds__(256, width <= 128 && columns <= 32 && sizeof(E) < 8 ? 2 : 1)  \
      linear_attention_states_##name(const __grid_constant__ ridgepoint::cuda::LinearAttention p) {          \
    ridgepoint::cuda::scan_forward<E, chunk, width, columns, true>(p);                                       \
  }                                                                                                          \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                       \
      linear_attention_reverse_##name(const __grid_constant__ ridgepoint::cuda::LinearAttention p) {         \
    ridgepoint::cuda::scan_backward<E, chunk, width, columns>(p);                                            \
  }
#define RIDGEPOINT_LINEAR_ATTENTION(dtype, E, chunk, width)                                                     \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                          \
      linear_attention_prepare_##dtype##_##width(const __grid_constant__ ridgepoint::cuda::LinearAttention p) { \
    ridgepoint::cuda::prepare_chunk<E, chunk, width>(p);                                                        \
  }                                                                                                             \
  RIDGEPOINT_LINEAR_SCANS(dtype##_##width, E, chunk, width, ridgepoint::cuda::kLinearSlice)                     \
  extern "C" __global__ void __launch_bounds__(256, 1) linear_attention_backward_chunked_##dtype##_##width(     \
      const __grid_constant__ ridgepoint::cuda::LinearAttention p) {                                            \
    ridgepoint::cuda::key_gradients<E, chunk, width>(p);                                                        \
  }
