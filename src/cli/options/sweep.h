// The values one option sweeps. Grammar, blanks not allowed:
//   list  = item *("," item)
//   item  = value | first ":" last | first ":" last ":*" factor | first ":" last ":+" step
// A range counts up from `first` and stops at or before `last`; the default step is 1. Every function throws Error
// (usage) that quotes the text and says what is accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {

// The limit of values in one option and of rows in one sweep: more is a typing error.
inline constexpr std::size_t kMaxSweepValues = 10'000;

// Returns parse(text), the value of an option. Errors begin with its flag.
template <typename Parse>
auto parse_option(std::string_view flag, std::string_view text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw Error(std::string(flag) + ": " + error.what(), ErrorKind::usage);
  }
}

// The items of a comma list. Throws for an empty list and for an empty item.
std::vector<std::string> split_list(std::string_view text);

struct NumberRule {
  std::int64_t min = 1;
  std::int64_t max = INT64_MAX;
  std::int64_t (*parse)(std::string_view);  // parses one value; a factor is always a plain number
};

// The numbers of a list whose items may be ranges, in the order written.
std::vector<std::int64_t> parse_numbers(std::string_view text, const NumberRule& rule);

// The begin and the end of "10:20.5", milliseconds, in parts of a millisecond: 10000 and 20500 of 1000. The begin is at
// least 0 and before the end.
std::pair<std::int64_t, std::int64_t> parse_range(std::string_view text, std::int64_t parts_of_ms);

}  // namespace ridgepoint::cli
