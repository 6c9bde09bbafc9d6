#include <array>

#include "core/text/nearest.h"
#include "core/types/enum_names.h"
#include "ridgepoint/core/dtype.h"
#include "ridgepoint/core/precision.h"

namespace ridgepoint {
namespace {

using enum DTypeKind;

// In the order of the enum.
constexpr std::array<DTypeTraits, std::size(kAllDTypes) + std::size(kCodeDTypes) + 2> kTraits = {{
    {"fp64", floating, 64, 53, 11, DType::fp64},
    {"fp32", floating, 32, 24, 8, DType::fp32},
    {"bf16", floating, 16, 8, 8, DType::fp32},
    {"fp16", floating, 16, 11, 5, DType::fp32},
    {"int64", integer, 64, 63, 0, DType::int64},
    {"int32", integer, 32, 31, 0, DType::int32},
    {"bool", boolean, 8, 1, 0, DType::boolean},
    {"dynamic8", code, 8, 0, 0, DType::fp32},
    {"udynamic8", code, 8, 0, 0, DType::fp32},
    {"e4m3", code, 8, 4, 4, DType::fp32},
    {"e5m2", code, 8, 3, 5, DType::fp32},
    {"low_half", bytes, 16, 0, 0, DType::fp32},
    {"packed", bytes, 8, 0, 0, DType::fp32},
}};

constexpr auto kNames = enum_names<Precision>("fp32", "tf32", "bf16", "fp16", "fp8");

}  // namespace

const DTypeTraits& traits(DType dtype) { return kTraits[static_cast<std::size_t>(dtype)]; }

std::size_t size_bytes(DType dtype) { return static_cast<std::size_t>(traits(dtype).bits) / 8; }
std::string_view name(DType dtype) { return traits(dtype).name; }
bool is_floating(DType dtype) { return traits(dtype).kind == floating; }
bool is_integer(DType dtype) { return traits(dtype).kind == integer; }
bool is_code(DType dtype) { return traits(dtype).kind == code; }
bool is_low(DType dtype) { return is_floating(dtype) && traits(dtype).bits <= 16; }
DType accumulator(DType dtype) { return traits(dtype).accumulator; }

bool holds(DType wide, DType narrow) {
  return traits(wide).digits >= traits(narrow).digits && traits(wide).exponent_bits >= traits(narrow).exponent_bits;
}

DType widest(DType a, DType b) {
  if (holds(a, b)) return a;
  return holds(b, a) ? b : accumulator(a);
}

bool has_range_of_fp32(DType dtype) { return traits(dtype).exponent_bits >= traits(DType::fp32).exponent_bits; }

DType dtype_from_name(std::string_view text) {
  std::array<std::string_view, kTraits.size()> names;
  for (std::size_t i = 0; i < kTraits.size(); ++i) {
    if (kTraits[i].name == text) return static_cast<DType>(i);
    names[i] = kTraits[i].name;
  }
  refuse_name(text, "unknown dtype '{}'", names);
}

std::string_view name(Precision precision) { return kNames[precision]; }
Precision precision_from_name(std::string_view text) { return kNames.parse(text, "'{}' is unknown"); }

DType matmul_dtype(Precision precision) {
  if (precision == Precision::bf16 || precision == Precision::fp8) return DType::bf16;
  return precision == Precision::fp16 ? DType::fp16 : DType::fp32;
}

}  // namespace ridgepoint
