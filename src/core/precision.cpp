#include "ridgepoint/precision.h"

#include <string>

#include "core/nearest.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

constexpr std::array<std::string_view, kAllPrecisions.size()> kNames = {"fp32", "tf32", "bf16", "fp16"};

}  // namespace

std::string_view name(Precision precision) { return kNames[static_cast<std::size_t>(precision)]; }

Precision precision_from_name(std::string_view text) {
  for (const Precision precision : kAllPrecisions) {
    if (name(precision) == text) return precision;
  }
  throw Error("unknown precision '" + std::string(text) + "'" + hint(text, kNames), ErrorKind::usage);
}

DType matmul_dtype(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return DType::bf16;
    case Precision::fp16:
      return DType::fp16;
    default:
      return DType::fp32;
  }
}

}  // namespace ridgepoint
