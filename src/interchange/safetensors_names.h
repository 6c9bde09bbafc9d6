// The format's names of dtypes, and names from a file in a form that is safe to print.
#pragma once

#include <string>
#include <string_view>

#include "core/text/text.h"
#include "core/types/enum_names.h"
#include "ridgepoint/core/dtype.h"

namespace ridgepoint {

inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

// Codes of 8 bits are integers to other programs.
inline constexpr auto kSafetensorsDTypes =
    enum_names<DType>("F64", "F32", "BF16", "F16", "I64", "I32", "BOOL", "I8", "U8");

// A name in quotes, shortened if very long, with control characters replaced: it comes from a file that may be
// malicious, and a terminal shows it.
inline std::string quote_name(std::string_view name) {
  constexpr std::size_t kLongestQuoted = 120;
  const std::string text = printable(name.substr(0, kLongestQuoted));
  return name.size() > kLongestQuoted ? "'" + text + "...'" : "'" + text + "'";
}

}  // namespace ridgepoint
