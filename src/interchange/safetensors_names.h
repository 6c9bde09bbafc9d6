// The format's names of dtypes, and names from a file in a form that is safe to print.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ridgepoint/dtype.h"

namespace ridgepoint {

inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

// F64, F32, BF16, F16, I64, I32 or BOOL, and the reverse; empty for any other text.
std::string_view safetensors_name(DType dtype);
std::optional<DType> dtype_from_safetensors_name(std::string_view text);

// A name in quotes, shortened if very long, with control characters replaced: it comes from a file that may be
// malicious, and a terminal shows it.
std::string quote_name(std::string_view name);

}  // namespace ridgepoint
