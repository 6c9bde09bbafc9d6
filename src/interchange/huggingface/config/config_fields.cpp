#include "interchange/huggingface/config/config_fields.h"

#include <algorithm>
#include <cmath>

#include "core/files/file.h"
#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

std::string shown(const Json& value) {
  const std::string text = dump_json(value);
  constexpr std::size_t kLongest = 60;
  return text.size() > kLongest ? printable(std::string_view(text).substr(0, kLongest)) + "..." : printable(text);
}

bool is_nothing(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

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

ConfigFields::ConfigFields(Json object, std::string prefix) : object_(std::move(object)), prefix_(std::move(prefix)) {}

const Json* ConfigFields::find(std::string_view key) {
  read_.emplace(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFields::has(std::string_view key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

void ConfigFields::fail(std::string_view key, std::string_view problem) const {
  throw_error("{} {}", quote_name(fmt::format("{}{}", prefix_, key)), problem);
}

void ConfigFields::note(std::string sentence) { notes_.push_back(std::move(sentence)); }

std::int64_t ConfigFields::size(std::string_view key, std::int64_t absent, std::int64_t most) {
  const Json* value = find(key);
  if (value == nullptr && !contains(key)) return absent;
  if (value == nullptr) fail(key, fmt::format("is null; it must be an integer from 1 to {}", most));
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<std::uint64_t>() <= static_cast<std::uint64_t>(most));
  if (!fits || value->get<std::int64_t>() < 1 || value->get<std::int64_t>() > most)
    fail(key, "is {}; it must be an integer from 1 to {}", shown(*value), most);
  return value->get<std::int64_t>();
}

std::optional<std::int64_t> ConfigFields::optional_size(std::string_view key, std::optional<std::int64_t> absent) {
  if (!contains(key)) {
    read_.emplace(key);
    return absent;
  }
  if (find(key) == nullptr) return std::nullopt;
  return size(key, 0);
}

double ConfigFields::number(std::string_view key, double absent, double least, bool may_be_least,
                            std::string_view range) {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!std::isfinite(number) || number < least || (number == least && !may_be_least))
    fail(key, "is {}; it must be a number {}", shown(*value), range);
  return number;
}

double ConfigFields::positive(std::string_view key, double absent) { return number(key, absent, 0, false, "above 0"); }

double ConfigFields::not_negative(std::string_view key, double absent) {
  return number(key, absent, 0, true, "of at least 0");
}

bool ConfigFields::flag(std::string_view key, bool absent) {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) fail(key, fmt::format("is {}; it must be true or false", shown(*value)));
  return value->get<bool>();
}

std::string ConfigFields::text(std::string_view key, std::string_view absent) {
  const Json* value = find(key);
  if (value == nullptr) return std::string(absent);
  if (!value->is_string()) fail(key, fmt::format("is {}; it must be a string", shown(*value)));
  return value->get<std::string>();
}

std::optional<ConfigFields> ConfigFields::object(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail(key, fmt::format("is {}; it must be an object", shown(*value)));
  return ConfigFields(*value, fmt::format("{}{}.", prefix_, key));
}

void ConfigFields::refuse(std::string_view key, std::string_view why) {
  const Json* value = find(key);
  if (value == nullptr || is_nothing(*value)) return;
  fail(key, "is {}; {}", shown(*value), why);
}

std::vector<std::string> ConfigFields::unread() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_.items()) {
    if (!read_.contains(key)) names.push_back(prefix_ + key);
  }
  return names;
}

Json parse_json_object(std::string_view text, std::string_view what) {
  Json json = parse_json(with_infinities_as_strings(text), what);
  if (!json.is_object()) throw_error("{} holds no JSON object, but a value of the type {}", what, json.type_name());
  return json;
}

Json read_json_object(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  return parse_json_object(read_file(path, limit_bytes), fmt::format("'{}'", path.string()));
}

}  // namespace ridgepoint
