#include "ridgepoint/precision.h"

#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

constexpr auto kNames = enum_names<Precision>("fp32", "tf32", "bf16", "fp16", "fp8");

}  // namespace

std::string_view name(Precision precision) { return kNames[precision]; }
Precision precision_from_name(std::string_view text) { return kNames.parse(text, "'{}' is unknown"); }

DType matmul_dtype(Precision precision) {
  if (precision == Precision::bf16 || precision == Precision::fp8) return DType::bf16;
  return precision == Precision::fp16 ? DType::fp16 : DType::fp32;
}

}  // namespace ridgepoint
