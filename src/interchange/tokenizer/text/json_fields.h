// The members of objects in tokenizer.json. Throws Error, a sentence, for what is missing or of another type.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/text/json.h"
#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint::tokenizer {

// What steps may add to a text: a step of few bytes could fill the memory otherwise.
inline constexpr std::size_t kMostContentBytes = 256;

inline const Json* find_member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

template <typename T>
T value_of(const Json& value, std::string_view key) {
  const bool fits = std::is_same_v<T, bool>          ? value.is_boolean()
                    : std::is_same_v<T, std::string> ? value.is_string()
                    : std::is_same_v<T, double>      ? value.is_number()
                                                     : value.is_number_unsigned();
  if (!fits) throw_error("its {} is of another type", quote_name(std::string(key)));
  return value.get<T>();
}

template <typename T>
T member_or(const Json& object, std::string_view key, T usual) {
  const Json* value = find_member(object, key);
  return value == nullptr ? usual : value_of<T>(*value, key);
}

template <typename T>
T member(const Json& object, std::string_view key) {
  const Json* value = find_member(object, key);
  if (value == nullptr) throw_error("it has no {}", quote_name(std::string(key)));
  return value_of<T>(*value, key);
}

inline std::string content_of(const Json& object, std::string_view key) {
  std::string content = member<std::string>(object, key);
  if (content.size() > kMostContentBytes)
    throw_error("its {} has {} bytes; the most is {}", quote_name(std::string(key)), content.size(), kMostContentBytes);
  return content;
}

inline const Json& list_member(const Json& object, std::string_view key) {
  const Json* value = find_member(object, key);
  if (value == nullptr || !value->is_array()) throw_error("it has no list {}", quote_name(std::string(key)));
  return *value;
}

inline Error unknown_kind(std::string_view what, const std::string& kind) {
  return Error(fmt::format("its {} is of the kind {}, which this program does not read", what, quote_name(kind)),
               ErrorKind::unsupported);
}

}  // namespace ridgepoint::tokenizer
