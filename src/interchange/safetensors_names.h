// Names as safetensors spells them, and names from a file as messages may show them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ridgepoint/dtype.h"

namespace ridgepoint {

inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

// F64 F32 BF16 F16 I64 I32 BOOL, and back; nothing for any other.
std::string_view safetensors_name(DType dtype);
std::optional<DType> dtype_from_safetensors_name(std::string_view text);

// A name in quotes, shortened when very long, control characters replaced: it comes from a file that may be hostile
// and goes to a terminal.
std::string quote_name(std::string_view name);

}  // namespace ridgepoint
