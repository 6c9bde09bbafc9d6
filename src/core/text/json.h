// JSON as this library writes and reads it.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "ridgepoint/core/error.h"

namespace ridgepoint {

using Json = nlohmann::ordered_json;

// Objects and lists within each other that a text may have. Copying a value, writing it and its destructor take stack
// for each, so a text without this limit could end the process.
inline constexpr int kMostJsonLevels = 64;

// A text that is not JSON, or more than this library reads.
class JsonError : public Error {
 public:
  JsonError(const std::string& message, bool is_cut_off) : Error(message), is_cut_off_(is_cut_off) {}
  bool is_cut_off() const { return is_cut_off_; }  // the text ends before its value does

 private:
  bool is_cut_off_;
};

// The value in a text. Every text that this library reads as a whole goes through here. A key that is there twice has
// its last value, as in Python. Throws JsonError, a sentence with the subject `what`, for a text that is not JSON, has
// a number that no type holds, or more than kMostJsonLevels levels.
Json parse_json(std::string_view text, std::string_view what = "it");

// On one line. Text that is not UTF-8 (a device's own name, say) is replaced rather than refused; characters that a
// terminal obeys (is_control() in core/text/text.h) are written as \u and their number.
std::string dump_json(const Json& json);

// null for what is not finite.
inline Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace ridgepoint
