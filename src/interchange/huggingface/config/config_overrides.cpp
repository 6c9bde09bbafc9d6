#include "interchange/huggingface/config/config_overrides.h"

#include <fmt/format.h>

#include "core/text/throw_error.h"
#include "interchange/huggingface/config/config_fields.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

std::vector<std::string_view> split_items(std::string_view text) {
  std::vector<std::string_view> items;
  std::size_t begin = 0;
  int depth = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) is_quoted = !is_quoted;
    if (is_quoted) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c != ',' || depth > 0) continue;
    items.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  items.push_back(text.substr(begin));
  return items;
}

// JSON of any kind, or the text itself. In an object, which limits the depth.
Json parse_value(std::string_view text) {
  try {
    return parse_json_object(fmt::format("{{\"value\":{}}}", text), "the value")["value"];
  } catch (const Error&) {
    return Json(std::string(text));
  }
}

}  // namespace

std::vector<ConfigOverride> parse_config_overrides(std::string_view text) {
  std::vector<ConfigOverride> overrides;
  for (const std::string_view item : split_items(text)) {
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size())
      throw_error(ErrorKind::usage, "{} is no field of a config.json with its value: num_hidden_layers=2",
                  quote_name(item));
    overrides.push_back({std::string(item.substr(0, equals)), parse_value(item.substr(equals + 1))});
  }
  return overrides;
}

void override_fields(const std::vector<ConfigOverride>& overrides, Json& object) {
  for (const auto& [key, value] : overrides) {
    Json* at = &object;
    std::string_view rest = key;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      at = &(*at)[std::string(rest.substr(0, dot))];
      if (!at->is_object() && !at->is_null())
        throw_error(ErrorKind::usage, "{}: {} is no object", quote_name(key),
                    quote_name(std::string_view(key).substr(0, key.size() - rest.size() + dot)));
      rest.remove_prefix(dot + 1);
    }
    (*at)[std::string(rest)] = value;
  }
}

}  // namespace ridgepoint
