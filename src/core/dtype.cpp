#include "ridgepoint/dtype.h"

#include <array>

#include "core/nearest.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

struct DTypeInfo {
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<DTypeInfo, std::size(kAllDTypes)> kInfo = {
    {{"fp64", 8}, {"fp32", 4}, {"bf16", 2}, {"fp16", 2}, {"int64", 8}, {"int32", 4}, {"bool", 1}}};

}  // namespace

std::size_t size_bytes(DType dtype) { return kInfo[static_cast<std::size_t>(dtype)].bytes; }

std::string_view name(DType dtype) { return kInfo[static_cast<std::size_t>(dtype)].name; }

DType dtype_from_name(std::string_view text) {
  std::array<std::string_view, kInfo.size()> names;
  for (std::size_t i = 0; i < kInfo.size(); ++i) {
    if (kInfo[i].name == text) return kAllDTypes[i];
    names[i] = kInfo[i].name;
  }
  throw Error("unknown dtype '" + std::string(text) + "'" + hint(text, names), ErrorKind::usage);
}

}  // namespace ridgepoint
