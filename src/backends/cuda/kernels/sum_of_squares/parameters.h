// The parameters of the kernels of sum_of_squares.cu. Host and device code both include this header, so it uses plain
// structs and no other header of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

enum class SquaresElement : std::uint8_t { fp32, bf16, fp16 };

// The tensors of one launch. Every preset of the model fits in one launch.
struct SquaresTable {
  static constexpr int kCapacity = 1024;
  static constexpr int kChunkElements = 16384;  // one block's work
  static constexpr int kThreads = 256;
  static constexpr int kFinishThreads = 1024;

  std::int32_t tensors = 0;
  std::uint32_t first_chunk[kCapacity] = {};
  std::int64_t elements[kCapacity] = {};
  const void* operands[kCapacity] = {};
  SquaresElement types[kCapacity] = {};
};
static_assert(sizeof(SquaresTable) <= 32000, "a launch has at most 32764 bytes of parameters (sm_70 and later)");

}  // namespace ridgepoint::cuda
