// The parameters of the kernels of quantise.cu and transpose_codes.cu. Host and device code both include this header,
// so it uses plain structs and no other header of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

struct QuantiseGrid {
  // A block's threads in the first kernel. Of fp32 it reads few numbers, magnitudes or scales of rows, and small blocks
  // find a place beside other kernels.
  static constexpr int largest_threads(bool is_fp32) { return is_fp32 ? 128 : 512; }
  static constexpr int kMostShares = 512;  // blocks of the first kernel, each with the largest magnitude of its share

  std::int32_t rows = 0, columns = 0;  // of x
  std::int32_t shares = 0;
  std::int32_t is_e5m2 = 0;
  float largest_code = 0;
  float least_magnitude = 0;
};

struct TransposedCodes {
  std::int32_t rows = 0, columns = 0;  // of the codes that are read
  std::int32_t shares = 0;             // 0: one scale is that of all rows
};

}  // namespace ridgepoint::cuda
