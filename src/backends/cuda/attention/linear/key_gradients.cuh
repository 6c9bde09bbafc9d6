// The gradients of linear attention that need no scan: of a chunk of queries, keys, g and beta.
#pragma once

#include "backends/cuda/attention/linear/tiles.cuh"

namespace ridgepoint::cuda {
namespace {

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
    const int first = chunk * kChunk, count = min(kChunk, p.tokens - first);
    const int width = p.value_width - slice * kLinearSlice;
    const auto load_rows = [&](E* to, const auto& rows) {
      load_tile<E, kChunk, kLinearSlice>(
          to, matrix_of<E>(rows, head, p.heads) + 1LL * first * rows.row + slice * kLinearSlice, rows.row, count, width,
          p.in_vectors);
    };
    load_rows(d_o, p.d_o);
    load_rows(v, p.v);
    load_rows(dv, p.dv);
    if (p.delta)
      load_whole<E, kChunk, kLinearSlice>(w, of_slice<E, kChunk * kLinearSlice>(p.errors, p, head, chunk, slice));
    load_whole<E, kWidth, kLinearSlice>(state, of_slice<E, kWidth * kLinearSlice>(p.states, p, head, chunk, slice));
    load_whole<E, kWidth, kLinearSlice>(gradient,
                                        of_slice<E, kWidth * kLinearSlice>(p.gradients, p, head, chunk, slice));
    load_bytes<kTiling.decay_bytes()>(decay, of_chunk<Sum, 2 * kChunk>(p.decays, p, head, chunk));
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
  load_keys<E, kChunk, kWidth>(k, p.k, p, key_head, first, count);
  load_keys<E, kChunk, kWidth>(q, p.q, p, key_head, first, count);
  const auto stage_of = [&](int step) {
    return Stage(stages + step % p.gradient_stages * kTiling.gradient_stage_bytes());
  };
  const auto load = [&](int step) {
    stage_of(step).load(p, key_head * group + step / p.slices, chunk, step % p.slices);
  };
  load(0);

  Sums<E, kChunk, kWidth> dq, dk;
  Sums<E, kChunk, kChunk> d_scores, d_inverse;  // do w^T and dv w^T
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
