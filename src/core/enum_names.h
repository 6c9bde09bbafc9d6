// The names of an enum's values, in one table: what name(), the *_from_name() functions and lists in help texts read.
// The enum counts up from 0, and the table has its names in that order.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ridgepoint {

// Throws Error (usage): `sentence` with the text in place of {}, then the nearest name or all of them.
[[noreturn]] void refuse_name(std::string_view text, std::string_view sentence,
                              std::span<const std::string_view> names);

template <typename Enum, std::size_t N>
class EnumNames {
 public:
  template <typename... Names>
  constexpr explicit EnumNames(Names... names) : names_{names...} {}

  constexpr std::string_view operator[](Enum value) const { return names_[static_cast<std::size_t>(value)]; }
  constexpr std::span<const std::string_view> all() const { return names_; }

  constexpr std::optional<Enum> find(std::string_view text) const {
    for (std::size_t i = 0; i < N; ++i) {
      if (names_[i] == text) return static_cast<Enum>(i);
    }
    return std::nullopt;
  }
  // `sentence` as refuse_name() takes it: "unknown mode '{}'".
  Enum parse(std::string_view text, std::string_view sentence) const {
    if (const std::optional<Enum> value = find(text)) return *value;
    refuse_name(text, sentence, names_);
  }

 private:
  std::array<std::string_view, N> names_;
};

// enum_names<Mode>("forward", "backward", "step")
template <typename Enum, typename... Names>
constexpr auto enum_names(Names... names) {
  return EnumNames<Enum, sizeof...(Names)>(names...);
}

// Of an enum that has a name(): the names of `values`.
template <typename Values>
std::vector<std::string_view> names_of(const Values& values) {
  std::vector<std::string_view> names;
  for (const auto value : values) names.push_back(name(value));
  return names;
}

}  // namespace ridgepoint
