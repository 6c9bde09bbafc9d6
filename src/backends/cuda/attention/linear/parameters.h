// The parameters and tilings of the kernels of linear_attention.cuh. Host and device code both include this header, so
// it uses plain structs.
#pragma once

#include <cstdint>

#include "backends/cuda/attention/common/parameters.h"

namespace ridgepoint::cuda {

// The columns of a slice of v or of a state. A block of the scans has one slice, or two where there are many heads.
inline constexpr int kLinearSlice = 32;
inline constexpr int kWideSlice = 2 * kLinearSlice;

// The tokens of a chunk, and the width to which rows of q and k are padded.
struct LinearTiling {
  int chunk = 0;
  int width = 0;
  int element_bytes = 0;

  static constexpr int kThreads = 256;

  constexpr int sum_bytes() const { return element_bytes < 4 ? 4 : element_bytes; }
  constexpr int row_bytes(int columns) const { return columns * element_bytes + 16; }  // 16 bytes apart in banks
  constexpr int key_bytes() const { return chunk * row_bytes(width); }
  constexpr int value_bytes(int columns = kLinearSlice) const { return chunk * row_bytes(columns); }
  constexpr int square_bytes() const { return chunk * row_bytes(chunk); }
  constexpr int state_bytes(int columns = kLinearSlice) const { return width * row_bytes(columns); }
  constexpr int decay_bytes() const { return 2 * chunk * sum_bytes(); }
  // k, q, and two squares in the type of the sums.
  constexpr int prepare_shared_bytes() const {
    return 2 * key_bytes() + 2 * chunk * (chunk + 4) * sum_bytes() + decay_bytes();
  }
  // Of a chunk: k, v or the gradient of o, with queries q and the scores, with the delta rule the inverse, and the
  // decays.
  constexpr int scan_stage_bytes(bool delta, bool queries, int columns) const {
    return (queries ? 2 : 1) * key_bytes() + value_bytes(columns) + (delta + queries) * square_bytes() + decay_bytes();
  }
  constexpr int scan_shared_bytes(bool delta, bool queries, int columns, int stages) const {
    return stages * scan_stage_bytes(delta, queries, columns) + state_bytes(columns) + 3 * value_bytes(columns);
  }
  // Of a head and a slice: four values of each token, two states, and the decays.
  constexpr int gradient_stage_bytes() const { return 4 * value_bytes() + 2 * state_bytes() + decay_bytes(); }
  constexpr int gradient_shared_bytes(int stages) const {
    return 2 * key_bytes() + stages * gradient_stage_bytes() + 2 * square_bytes() +
           (16 * kThreads / 32 + chunk + kThreads / 32) * sum_bytes();
  }
};

// linear_attention of q and k [batch,key_heads,tokens,key_width] and v [batch,heads,tokens,value_width], and its
// derivative. `slices` of kLinearSlice columns make up a row of v. g and beta are dense.
struct LinearAttention {
  AttentionOperand q, k, v, d_o;
  AttentionResult o, dq, dk, dv;
  const void *g = nullptr, *beta = nullptr;
  void *dg = nullptr, *d_beta = nullptr;
  // The workspace. For each head and chunk: the sums of g and beta; D q k^T; the inverse of I + A.
  void *decays = nullptr, *scores = nullptr, *inverses = nullptr;
  // For each head, chunk and slice: w, the state before the chunk and the gradient of that after it.
  void *errors = nullptr, *states = nullptr, *gradients = nullptr;
  std::int32_t heads = 1, key_heads = 1;  // of a batch
  std::int32_t tokens = 0, chunks = 0, key_width = 0, value_width = 0, slices = 0;
  std::int32_t scan_stages = 1, gradient_stages = 1;
  double scale = 1;
  bool delta = false;
  bool in_vectors = false;  // rows are whole vectors of 16 bytes
};

}  // namespace ridgepoint::cuda
