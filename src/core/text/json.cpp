#include "core/text/json.h"

#include <fmt/format.h>

namespace ridgepoint {
namespace {

// As far as the text is JSON; the parser finds the first byte that is not.
bool is_too_deep(std::string_view text) {
  int levels = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      is_in_string = !is_in_string;
    } else if (!is_in_string && (c == '[' || c == '{')) {
      if (++levels > kMostJsonLevels) return true;
    } else if (!is_in_string && (c == ']' || c == '}')) {
      --levels;
    }
  }
  return false;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  // Before the parser runs, because the destructor of what it has made so far would recurse.
  if (is_too_deep(text))
    throw JsonError(fmt::format("{} is nested deeper than {} levels", what, kMostJsonLevels), false);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    // The library's message quotes the text, however long it is.
    throw JsonError(fmt::format("{} is not JSON at byte {}", what, error.byte), error.byte > text.size());
  } catch (const Json::exception&) {
    throw JsonError(fmt::format("{} has a number that no type holds", what), false);
  }
}

}  // namespace ridgepoint
