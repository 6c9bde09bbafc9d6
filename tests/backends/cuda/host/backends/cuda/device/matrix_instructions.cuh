// src/backends/cuda/device/matrix_instructions.cuh for the lanes of an emulated warp.
#pragma once

#include "cuda.h"

namespace ridgepoint::cuda {

// A lane gives an address and gets its elements of four matrices.
struct MatrixLoad {
  std::uint32_t address;
  std::uint16_t elements[4][2];
};
template <bool kTransposes>
void load_matrices_of_warp(unsigned (&to)[4], std::uint32_t address) {
  const MatrixLoad own = emulated::exchange(~0U, MatrixLoad{address, {}}, [](auto operands) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      const char* const row = emulated::at_shared_address(operands[lane].address, 16);
      for (unsigned column = 0; column < 8; ++column) {
        const unsigned at_row = kTransposes ? column : lane % 8;
        const unsigned at_column = kTransposes ? lane % 8 : column;
        std::memcpy(&operands[at_row * 4 + at_column / 2].elements[lane / 8][at_column % 2], row + 2 * column, 2);
      }
    }
  });
  std::memcpy(to, own.elements, sizeof(to));
}
inline void load_matrices(unsigned (&to)[4], std::uint32_t address) { load_matrices_of_warp<false>(to, address); }
inline void load_matrices_transposed(unsigned (&to)[4], std::uint32_t address) {
  load_matrices_of_warp<true>(to, address);
}

template <class T>
void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const emulated::Multiplication own{{c[0], c[1], c[2], c[3]}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  const auto compute = [](auto operands) {
    emulated::multiply_tiles(operands.first, std::is_same_v<T, __nv_bfloat16>);
  };
  std::copy_n(emulated::exchange(~0U, own, compute).c, 4, c);
}

template <class T>
unsigned pack(float x, float y) {
  return std::bit_cast<unsigned>(PairOf<T>{T(x), T(y)});
}
template <class T>
float2 unpack(unsigned packed) {
  const auto pair = std::bit_cast<PairOf<T>>(packed);
  return {pair.x, pair.y};
}

}  // namespace ridgepoint::cuda
