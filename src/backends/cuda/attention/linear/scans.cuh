// The scans of linear attention from chunk to chunk: the state forwards, and its gradient backwards.
#pragma once

#include "backends/cuda/attention/linear/tiles.cuh"

namespace ridgepoint::cuda {
namespace {

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
    const int first = chunk * kChunk, count = min(kChunk, p.tokens - first);
    const int key_head = head / (p.heads / p.key_heads);
    load_keys<E, kChunk, kWidth>(k, p.k, p, key_head, first, count);
    load_tile<E, kChunk, kColumns>(values,
                                   matrix_of<E>(rows, head, p.heads) + 1LL * first * rows.row + slice * kColumns,
                                   rows.row, count, p.value_width - slice * kColumns, p.in_vectors);
    if (p.delta) load_whole<E, kChunk, kChunk>(inverse, of_chunk<E, kChunk * kChunk>(p.inverses, p, head, chunk));
    if constexpr (kHasQueries) {
      load_keys<E, kChunk, kWidth>(q, p.q, p, key_head, first, count);
      load_whole<E, kChunk, kChunk>(scores, of_chunk<E, kChunk * kChunk>(p.scores, p, head, chunk));
    }
    load_bytes<kTiling.decay_bytes()>(decay, of_chunk<Sum, 2 * kChunk>(p.decays, p, head, chunk));
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
  constexpr int kKeyStride = kStride<E, kWidth>, kRowStride = kStride<E, kColumns>, kSquare = kStride<E, kChunk>;
  char* const shared = shared_of_launch();
  const ScanTiles<E, kChunk, kWidth, kColumns, !kKeepsStates> tiles(shared, p);
  const int slice = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  constexpr LinearTiling kTiling{kChunk, kWidth, sizeof(E)};
  const int stage_bytes = kTiling.scan_stage_bytes(p.delta, !kKeepsStates, kColumns);
  const auto stage_of = [&](int chunk) { return Stage(shared + chunk % p.scan_stages * stage_bytes, p.delta); };

  Sums<E, kWidth, kColumns> state;
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
    Sums<E, kChunk, kColumns> w, o;
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
  constexpr int kKeyStride = kStride<E, kWidth>, kRowStride = kStride<E, kColumns>, kSquare = kStride<E, kChunk>;
  char* const shared = shared_of_launch();
  const ScanTiles<E, kChunk, kWidth, kColumns, true> tiles(shared, p);
  const int slice = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  constexpr LinearTiling kTiling{kChunk, kWidth, sizeof(E)};
  const int stage_bytes = kTiling.scan_stage_bytes(p.delta, true, kColumns);
  const auto stage_of = [&](int chunk) { return Stage(shared + chunk % p.scan_stages * stage_bytes, p.delta); };
  const Sum scale = static_cast<Sum>(p.scale);

  Sums<E, kWidth, kColumns> gradient;  // of the state after the chunk
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

    Sums<E, kChunk, kColumns> du, by_scores;
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

}  // namespace
}  // namespace ridgepoint::cuda
