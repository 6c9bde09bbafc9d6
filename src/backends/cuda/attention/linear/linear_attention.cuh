// linear_attention and its derivative in chunks of tokens; the formulas are in ops/rules/linear_attention.cpp.
//
// prepare     (chunks, key heads)  what the scans read of a chunk, for every head of a key head
// forward     (slices, heads)      the state, one or two slices of its columns, from chunk to chunk; o
// states      (slices, heads)      the same without o: for the derivative, the state before each chunk and w
// reverse     (slices, heads)      the gradient of the state, from the last chunk to the first; dv
// gradients   (chunks, key heads)  dq, dk, dg and d_beta, summed over the heads of a key head
#pragma once

#include "backends/cuda/attention/linear/key_gradients.cuh"
#include "backends/cuda/attention/linear/prepare.cuh"
#include "backends/cuda/attention/linear/scans.cuh"

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
