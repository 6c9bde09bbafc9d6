#include "interchange/huggingface/config/json_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/files/file.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {

namespace {

// Python writes Infinity as JSON has no word for it. Here it is a string as long, so that bytes stay where they are.
std::string with_infinities_as_strings(std::string_view text) {
  constexpr std::string_view kWord = "Infinity";
  constexpr std::string_view kString = "\"inf\"   ";
  static_assert(kWord.size() == kString.size());
  std::string json(text);
  bool is_in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (is_in_string && json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      is_in_string = !is_in_string;
    } else if (!is_in_string && json.compare(i, kWord.size(), kWord) == 0) {
      std::ranges::copy(kString, json.begin() + static_cast<std::ptrdiff_t>(i));
      i += kWord.size() - 1;
    }
  }
  return json;
}

}  // namespace

Json parse_json_object(std::string_view text, std::string_view what) {
  Json json = parse_json(with_infinities_as_strings(text), what);
  if (!json.is_object())
    throw Error(fmt::format("{} holds no JSON object, but a value of the type {}", what, json.type_name()));
  return json;
}

Json read_json_object(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  return parse_json_object(read_file(path, limit_bytes), fmt::format("'{}'", path.string()));
}

}  // namespace ridgepoint
