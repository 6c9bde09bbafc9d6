#include "interchange/safetensors_names.h"

#include "core/enum_names.h"
#include "core/text/text.h"

namespace ridgepoint {
namespace {

constexpr auto kNames = enum_names<DType>("F64", "F32", "BF16", "F16", "I64", "I32", "BOOL");
constexpr std::size_t kLongestQuoted = 120;

}  // namespace

std::string_view safetensors_name(DType dtype) { return kNames[dtype]; }
std::optional<DType> dtype_from_safetensors_name(std::string_view text) { return kNames.find(text); }

std::string quote_name(std::string_view name) {
  const std::string text = printable(name.substr(0, kLongestQuoted));
  return name.size() > kLongestQuoted ? "'" + text + "...'" : "'" + text + "'";
}

}  // namespace ridgepoint
