#include "interchange/safetensors_names.h"

#include <algorithm>
#include <array>

namespace ridgepoint {
namespace {

// In the order of DType.
constexpr std::array<std::string_view, std::size(kAllDTypes)> kNames = {"F64", "F32", "BF16", "F16",
                                                                        "I64", "I32", "BOOL"};
constexpr std::size_t kLongestQuoted = 120;

}  // namespace

std::string_view safetensors_name(DType dtype) { return kNames[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_from_safetensors_name(std::string_view text) {
  const auto found = std::ranges::find(kNames, text);
  if (found == kNames.end()) return std::nullopt;
  return kAllDTypes[static_cast<std::size_t>(found - kNames.begin())];
}

std::string quote_name(std::string_view name) {
  std::string text(name.substr(0, kLongestQuoted));
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return name.size() > kLongestQuoted ? "'" + text + "...'" : "'" + text + "'";
}

}  // namespace ridgepoint
