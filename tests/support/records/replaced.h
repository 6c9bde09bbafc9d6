#pragma once

#include <string>
#include <string_view>

namespace ridgepoint::testing {

// `text` with `after` in place of every `before`.
inline std::string replaced(std::string text, std::string_view before, std::string_view after) {
  for (std::size_t at = 0; (at = text.find(before, at)) != std::string::npos; at += after.size())
    text.replace(at, before.size(), after);
  return text;
}

}  // namespace ridgepoint::testing

namespace ridgepoint {

using testing::replaced;

}  // namespace ridgepoint
