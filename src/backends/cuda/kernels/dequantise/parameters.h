// The parameters of the kernels of dequantise.cu. Host and device code both include this header, so it uses plain
// structs and no other header of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

// A matrix in memory (core/packed/packed_matrix.h): offsets in bytes from its codes.
struct PackedGrid {
  static constexpr int kThreads = 256;
  static constexpr int kGroup = 8;  // elements that a thread writes at a time
  static constexpr int kGroupsPerThread = 4;
  static constexpr int kElementsPerBlock = kThreads * kGroup * kGroupsPerThread;

  std::int32_t elements = 0;
  std::int32_t columns = 0;
  std::int64_t scales = 0;
  std::int64_t outer_scales = 0;  // nf4; 0: the scales of its blocks are fp32
  std::int64_t mean = 0;          // nf4
  // The order of the rows, which the result has in this program's (RowOrder); rotated is 0 where they are the same.
  std::int32_t head_size = 0;
  std::int32_t rotated = 0;
  std::int32_t kept = 0;
};

// The numbers of the codes.
struct Nf4Levels {
  float elements[16];
  float magnitudes[256];
};

}  // namespace ridgepoint::cuda
