// The normalizers of tokenizer.json.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/text/json.h"

namespace ridgepoint::tokenizer {

// Empty: the text stays as it is.
using Normalizer = std::function<std::string(std::string_view)>;

// `json` is the member "normalizer". Throws Error for a kind that is not known, by name.
Normalizer read_normalizer(const Json& json);

// Every occurrence of a text or of the matches of a pattern, as "pattern" of a JSON object has it, becomes `content`.
Normalizer read_replace(const Json& json);

}  // namespace ridgepoint::tokenizer
