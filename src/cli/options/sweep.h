// The values one option sweeps. Grammar, blanks not allowed:
//   list  = item *("," item)
//   item  = value | first ":" last | first ":" last ":*" factor | first ":" last ":+" step
// A range counts up from `first` and stops at or before `last`; its step is 1 unless told. Values are positive or
// zero as the option says. Every function throws Error (usage) quoting the text and saying what is accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint::cli {

// More values than this in one option, or rows in one sweep, is a slip of the finger.
inline constexpr std::size_t kMaxSweepValues = 10'000;

// The items of a comma list. Throws for an empty list and for an empty item.
std::vector<std::string> split_list(std::string_view text);
// The same of an option's value: what is said begins with its flag.
std::vector<std::string> split_list(std::string_view flag, std::string_view text);

struct NumberRule {
  std::int64_t min = 1;
  std::int64_t max = INT64_MAX;
  std::int64_t (*parse)(std::string_view);  // of one value; factors are always plain numbers
};

// The numbers of a list whose items may be ranges, in the order written.
std::vector<std::int64_t> parse_numbers(std::string_view text, const NumberRule& rule);

}  // namespace ridgepoint::cli
