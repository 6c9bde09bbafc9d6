// The parameters of the kernel of fill.cu. Host and device code both include this header, so it uses plain structs and
// no other header of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

// Elements of 1, 2 or 4 bytes, each with the low bytes of a value.
struct FillBytes {
  static constexpr int kThreads = 128;
  static constexpr int kMostBytes = 4096;

  unsigned char* to = nullptr;
  std::uint32_t value = 0;
  std::int32_t element_bytes = 1;
  std::int32_t bytes = 0;
};

}  // namespace ridgepoint::cuda
