// Matrices in 4 or 8 bits an element, as bitsandbytes stores them, and in fp8.
//
// nf4 (Dettmers et al. 2023, "QLoRA", arXiv 2305.14314): the elements, row by row, are divided into blocks of 64. An
// element is a code of 4 bits for a number from -1 to 1, times the largest magnitude of its block. Double quantisation
// stores these magnitudes less their mean, in blocks of 256, as codes of dynamic8 (core/dynamic_code.h) times the
// largest magnitude of the block, which is fp32; nf4-single has the magnitudes of the blocks of 64 in fp32. The first
// element of a pair has the upper 4 bits of the byte.
//
// int8 (Dettmers et al. 2022, "LLM.int8()", arXiv 2208.07339): an element is an integer from -127 to 127, times the
// largest magnitude of its row, which is fp32, over 127.
//
// fp8: an element is a code of e4m3 (core/types/float8.h) times the fp32 scale of the matrix, which are those that
// `quantise` makes of the matrix in bf16 (ops/rules/quantise.cpp). Its rows are in this program's order.
//
// Of the other formats, rows of rotated heads are packed in the order of the model's files, so the bytes are those that
// bitsandbytes makes of the tensor in the file.
//
// All arithmetic is in fp32, one rounding an operation, so every device computes the same numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "ridgepoint/core/base_weights.h"

namespace ridgepoint {

inline constexpr std::int64_t kNf4Block = 64;
inline constexpr std::int64_t kNf4BlocksOfBlocks = 256;
// Rows of nf4 that begin at a multiple of so many elements share no scale with those before them.
inline constexpr std::int64_t kNf4PartStep = kNf4Block * kNf4BlocksOfBlocks;

// The numbers of the codes of nf4, in rising order.
inline constexpr std::array<float, 16> kNf4Levels = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

// A matrix in memory: the codes, then the scales of blocks or rows, each part at a multiple of 16 bytes.
struct PackedMatrix {
  BaseWeights format = BaseWeights::nf4;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  RowOrder order = {};  // the packed rows are in the file's

  std::int64_t elements() const { return rows * columns; }
  std::int64_t blocks() const;            // nf4, nf4-single
  std::int64_t blocks_of_blocks() const;  // nf4

  // Offsets in bytes. The codes begin at 0.
  // nf4: the dynamic8 code of each block; nf4-single, int8: the largest magnitude of each block or row.
  std::int64_t scales() const;        // fp8: the scale of the matrix, directly behind the codes
  std::int64_t outer_scales() const;  // nf4: the fp32 factor of each block of blocks
  std::int64_t mean() const;          // nf4: the fp32 mean of the blocks' magnitudes
  std::int64_t bytes() const;         // a multiple of 16; fp8: 4 more than elements
};

// Writes the elements of a matrix, row by row in this program's order, from number `first` on. Threads call it at once.
using ElementSource = std::function<void(std::int64_t first, std::span<float> elements)>;

// The source of elements that stay in memory.
ElementSource elements_of(std::span<const float> elements);

// Throws Error where an element is not finite, or `packed` has another size than the matrix.
void pack(const PackedMatrix& matrix, const ElementSource& source, std::span<std::byte> packed);

// The `count` elements from `first` on.
void unpack(const PackedMatrix& matrix, const std::byte* packed, std::int64_t first, std::int64_t count,
            float* elements);

}  // namespace ridgepoint
