#include "backends/cuda/driver/tensor_map.h"

#include <cstring>

#include "backends/cuda/libraries/driver.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cuda {
namespace {

constexpr std::int64_t kAlignmentBytes = 16;
constexpr std::int64_t kLongestStrideBytes = std::int64_t{1} << 40;

CUtensorMapDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::fp16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::fp32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default: throw Error(std::string("there is no tensor map for ") + std::string(name(dtype)), ErrorKind::unsupported);
  }
}

CUtensorMapSwizzle swizzle_of(int line_bytes) {
  if (line_bytes == 32) return CU_TENSOR_MAP_SWIZZLE_32B;
  return line_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
}

}  // namespace

bool has_tensor_map(const TensorMapShape& shape) {
  const auto bytes = static_cast<std::int64_t>(size_bytes(shape.dtype));
  for (std::size_t i = 0; i < shape.strides.size(); ++i) {
    if (shape.sizes[i + 1] == 1) continue;
    const std::int64_t stride = shape.strides[i] * bytes;
    if (stride <= 0 || stride % kAlignmentBytes != 0 || stride >= kLongestStrideBytes) return false;
  }
  return true;
}

TensorMap make_tensor_map(const TensorMapShape& shape, const void* data) {
  if (!has_tensor_map(shape) || reinterpret_cast<std::uintptr_t>(data) % kAlignmentBytes != 0) {
    throw Error("the copy engine needs an address and strides that are multiples of 16 bytes; copy the tensor first",
                ErrorKind::unsupported);
  }
  constexpr std::uint32_t kRank = 4;
  std::uint64_t sizes[kRank];
  std::uint64_t strides[kRank - 1];
  std::uint32_t box[kRank];
  constexpr std::uint32_t kSteps[kRank] = {1, 1, 1, 1};
  const auto bytes = static_cast<std::int64_t>(size_bytes(shape.dtype));
  for (std::size_t i = 0; i < kRank; ++i) {
    sizes[i] = static_cast<std::uint64_t>(shape.sizes[i]);
    box[i] = shape.box[i];
    // The stride of a dimension of size 1 reaches nothing, but must be one.
    if (i > 0)
      strides[i - 1] = static_cast<std::uint64_t>(sizes[i] == 1 ? kAlignmentBytes : shape.strides[i - 1] * bytes);
  }
  CUtensorMap encoded;
  check(driver().cuTensorMapEncodeTiled(&encoded, type_of(shape.dtype), kRank, const_cast<void*>(data), sizes, strides,
                                        box, kSteps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(shape.line_bytes),
                                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "describe a tensor to the copy engine");
  TensorMap map;
  static_assert(sizeof(map.words) == sizeof(encoded));
  std::memcpy(map.words, &encoded, sizeof(encoded));
  return map;
}

}  // namespace ridgepoint::cuda
