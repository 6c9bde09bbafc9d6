// What the scans of linear attention read of a chunk: the sums of g, D q k^T, and the inverse of I + A.
#pragma once

#include "backends/cuda/attention/linear/tiles.cuh"

namespace ridgepoint::cuda {
namespace {

// From one row of a square in the type of the sums to the next.
template <int kChunk>
inline constexpr int kSumRow = kChunk + 4;

// x = (I + a)^-1 for strictly lower a, both [kChunk,kChunk]. Blocks of 16 on the diagonal first, a column for each
// thread, then block row after block row: x_ij = -x_ii sum of a_ik x_kj, four columns for each thread. Overwrites a;
// above the diagonal blocks x is not written.
template <class Sum, int kChunk>
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
  load_keys<E, kChunk, kWidth>(k, p.k, p, key_head, first, count);
  load_keys<E, kChunk, kWidth>(q, p.q, p, key_head, first, count);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
  Sums<E, kChunk, kChunk> of_q, of_k;
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
      invert<Sum, kChunk>(a, x);
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

}  // namespace
}  // namespace ridgepoint::cuda
