// The kernels of low_matmul.cuh for operands of one dtype, with results in that dtype and in fp32; low_matmul.cpp has
// the list of their tilings. One dtype is one file, because they take long to compile.
//
// low_matmul_<operands>[_fp32: results]_<rows of a tile>x<columns>_<rows of a cluster>x<columns>[_turns]_<a: n for
// contiguous rows, t for contiguous columns><b: the same>
#pragma once

#include "backends/cuda/products/low_matmul/low_matmul.cuh"

#define RIDGEPOINT_LOW_MATMUL(name, element, result, turns, m, n, rows, columns, a, b)                             \
  extern "C" __global__ void __cluster_dims__(rows* columns, 1, 1) __launch_bounds__(LowMatmulTiling::kThreads, 1) \
      low_matmul_##name(const __grid_constant__ LowMatmul p) {                                                     \
    using T = Tiling<element, result, turns, m, n, rows, columns, Contiguous::a, Contiguous::b>;                   \
    run<T>(p, WriteResult<T>{p});                                                                                  \
  }

#define RIDGEPOINT_LOW_MATMUL_FORM(form, dtype, element, name, turns, m, n, rows, columns, a, b)     \
  RIDGEPOINT_LOW_MATMUL(dtype##_##name##_##form, element, element, turns, m, n, rows, columns, a, b) \
  RIDGEPOINT_LOW_MATMUL(dtype##_fp32_##name##_##form, element, float, turns, m, n, rows, columns, a, b)

#define RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, name, turns, m, n, rows, columns)        \
  RIDGEPOINT_LOW_MATMUL_FORM(nt, dtype, element, name, turns, m, n, rows, columns, k, k)     \
  RIDGEPOINT_LOW_MATMUL_FORM(nn, dtype, element, name, turns, m, n, rows, columns, k, other) \
  RIDGEPOINT_LOW_MATMUL_FORM(tn, dtype, element, name, turns, m, n, rows, columns, other, other)

// The last ones are for columns of b that are contiguous: otherwise part of a panel would be loaded in vain.
#define RIDGEPOINT_LOW_MATMULS(dtype, element)                                                  \
  RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, 128x128_1x1_turns, true, 128, 128, 1, 1)          \
  RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, 128x128_2x1_turns, true, 128, 128, 2, 1)          \
  RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, 128x128_1x2_turns, true, 128, 128, 1, 2)          \
  RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, 128x192_2x1_turns, true, 128, 192, 2, 1)          \
  RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, 128x256_1x1, false, 128, 256, 1, 1)               \
  RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, 128x256_2x1, false, 128, 256, 2, 1)               \
  RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, 256x128_1x1, false, 256, 128, 1, 1)               \
  RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, 256x128_1x2, false, 256, 128, 1, 2)               \
  RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, 128x192_1x1, false, 128, 192, 1, 1)               \
  RIDGEPOINT_LOW_MATMUL_FORMS(dtype, element, 128x64_1x1, false, 128, 64, 1, 1)                 \
  RIDGEPOINT_LOW_MATMUL_FORM(nt, dtype, element, 128x160_1x1_turns, true, 128, 160, 1, 1, k, k) \
  RIDGEPOINT_LOW_MATMUL_FORM(nt, dtype, element, 128x144_1x1, false, 128, 144, 1, 1, k, k)      \
  RIDGEPOINT_LOW_MATMUL_FORM(nt, dtype, element, 128x96_1x1, false, 128, 96, 1, 1, k, k)
