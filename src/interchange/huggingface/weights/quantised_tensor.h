// Weights of linear layers as bitsandbytes stores them in safetensors, under the names that it gives the tensors.
//
// 4 bits: X.weight U8 [ceil(n / 2), 1], X.weight.absmax (F32 [blocks]; with double quantisation U8, and then
// X.weight.nested_absmax F32 and X.weight.nested_quant_map F32 [256]), X.weight.quant_map F32 [16] and
// X.weight.quant_state.bitsandbytes__nf4 or __fp4, a U8 text in JSON:
// {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [out, in], "nested_blocksize": 256,
//  "nested_dtype": "float32", "nested_offset": 0.02}.
// 8 bits: X.weight I8 [out, in], X.SCB F32 [out], X.weight_format U8 of 0, which says that the rows are together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/packed/packed_matrix.h"
#include "interchange/huggingface/weights/tensor_files.h"

namespace ridgepoint {

// Whether the tensor has quantised elements: U8 or I8.
bool is_quantised(const TensorFiles& files, std::string_view weight);
// The names that tensors beside `weight` may have.
std::vector<std::string> names_beside(std::string_view weight);

// The [rows, columns] of a weight in files.
class QuantisedTensor {
 public:
  // Reads all but the elements. Throws Error where a tensor is missing or has another type, size or number than it
  // must.
  QuantisedTensor(const TensorFiles& files, std::string weight, std::int64_t rows, std::int64_t columns);

  // as_is: a form that PackedMatrix does not have.
  BaseWeights format() const { return format_; }
  std::vector<float> widened() const;
  // The bytes of rows from `first` on, as they are. Throws Error where the format is another, or where the blocks of
  // the file do not begin with the first row.
  std::vector<std::byte> packed(const PackedMatrix& matrix, std::int64_t first_row) const;

 private:
  void read_4bit();
  void read_state();
  void read_magnitudes();
  void read_8bit();
  std::vector<float> floats(std::string_view end, std::int64_t count) const;
  HostTensor tensor(const std::string& name, DType dtype, std::int64_t elements) const;
  [[noreturn]] void fail(std::string_view problem) const;

  const TensorFiles& files_;
  std::string weight_;
  std::int64_t rows_, columns_;
  BaseWeights format_ = BaseWeights::as_is;
  std::int64_t block_ = 0;
  bool is_nested_ = false;
  float mean_ = 0;
  std::vector<float> levels_;      // 4 bits
  std::vector<float> magnitudes_;  // of blocks or rows; with double quantisation, of blocks of blocks
  std::vector<std::byte> codes_;   // of the magnitudes of blocks
};

// A weight, or a part of the rows of one, in memory.
struct PackedBytes {
  PackedMatrix matrix;
  std::span<const std::byte> bytes;
};

// The tensors of a weight whose rows are those of the parts, one below the other.
class QuantisedParts {
 public:
  // Whether these bytes are those of one weight.
  static bool are_one(std::span<const PackedBytes> parts);

  // `dtype`: of the weight before it was packed, as PyTorch names it. The bytes must outlive the object.
  QuantisedParts(std::string weight, std::vector<PackedBytes> parts, std::string_view dtype);

  BaseWeights format() const { return parts_.front().matrix.format; }
  const std::vector<TensorDeclaration>& declarations() const { return declarations_; }
  HostTensor value(std::size_t i) const;

 private:
  enum class Make : std::uint8_t { codes, scales, outer_scales, levels, outer_levels, state, zero };

  std::vector<PackedBytes> parts_;
  std::string state_;
  std::vector<TensorDeclaration> declarations_;
  std::vector<Make> makes_;  // of each
};

}  // namespace ridgepoint
