#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace ridgepoint {

// The text with letters of ASCII in lower case.
inline std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace ridgepoint
