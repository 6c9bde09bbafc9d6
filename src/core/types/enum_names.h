// A table of the names of an enum's values, for name(), the *_from_name() functions and help texts. The enum's values
// must be 0, 1, 2, ...; the table lists their names in that order.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/text/nearest.h"

namespace ridgepoint {

template <typename Enum, std::size_t kCount>
class EnumNames {
 public:
  template <typename... Names>
  constexpr explicit EnumNames(Names... names) : names_{names...} {}

  constexpr std::string_view operator[](Enum value) const { return names_[static_cast<std::size_t>(value)]; }
  constexpr std::span<const std::string_view> all() const { return names_; }

  constexpr std::optional<Enum> find(std::string_view text) const {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (names_[i] == text) return static_cast<Enum>(i);
    }
    return std::nullopt;
  }
  // Calls refuse_name() for an unknown name. A `sentence` is for example "unknown mode '{}'".
  Enum parse(std::string_view text, std::string_view sentence) const {
    if (const std::optional<Enum> value = find(text)) return *value;
    refuse_name(text, sentence, names_);
  }

 private:
  std::array<std::string_view, kCount> names_;
};

// enum_names<Mode>("forward", "backward", "step")
template <typename Enum, typename... Names>
constexpr auto enum_names(Names... names) {
  return EnumNames<Enum, sizeof...(Names)>(names...);
}

// The names of `values` by their name() function.
template <typename Values>
std::vector<std::string_view> names_of(const Values& values) {
  std::vector<std::string_view> names;
  for (const auto value : values) names.push_back(name(value));
  return names;
}

}  // namespace ridgepoint
