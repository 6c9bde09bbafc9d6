// Element types of tensors: names, sizes and classes. Pure data, no arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ridgepoint {

enum class DType : std::uint8_t { fp64, fp32, bf16, fp16, int64, int32, boolean };

inline constexpr DType kAllDTypes[] = {DType::fp64,  DType::fp32,  DType::bf16,   DType::fp16,
                                       DType::int64, DType::int32, DType::boolean};

// Bytes of one element.
std::size_t size_bytes(DType dtype);

// The name used everywhere a person reads or types one: fp64 fp32 bf16 fp16 int64 int32 bool.
std::string_view name(DType dtype);

// The inverse of name(). Throws Error naming the nearest known dtype.
DType dtype_from_name(std::string_view text);

inline bool is_floating(DType dtype) { return dtype <= DType::fp16; }

}  // namespace ridgepoint
