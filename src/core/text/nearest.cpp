#include "core/text/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <vector>

#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

// Limits the time for a hostile word. No known name is this long.
constexpr std::size_t kLongestWord = 64;

bool same(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// Optimal string alignment distance; the table is computed in three rolling rows.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

// A prefix of a name counts as one typing error.
std::size_t typing_errors(std::string_view word, std::string_view name) {
  const bool is_prefix = word.size() < name.size() && std::equal(word.begin(), word.end(), name.begin(), same);
  return is_prefix ? 1 : edit_distance(word, name);
}

bool is_near(std::size_t errors, std::string_view word, std::string_view name) {
  const std::size_t longer = std::max(word.size(), name.size());
  return !word.empty() && errors < longer && errors <= std::max<std::size_t>(1, longer / 3);
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string_view> candidates) {
  word = word.substr(0, kLongestWord);
  std::string_view best;
  std::size_t fewest_errors = std::numeric_limits<std::size_t>::max();
  for (const std::string_view candidate : candidates) {
    const std::size_t count = typing_errors(word, candidate);
    if (count < fewest_errors && is_near(count, word, candidate)) {
      fewest_errors = count;
      best = candidate;
    }
  }
  return std::string(best);
}

std::string hint(std::string_view word, std::span<const std::string_view> names) {
  if (const std::string near = nearest(word, names); !near.empty()) return "; did you mean '" + near + "'?";
  if (names.empty() || names.size() > kMostNamesListed) return "";
  return fmt::format("; available: {}", fmt::join(names, ", "));
}

void refuse_name(std::string_view word, std::string_view sentence, std::span<const std::string_view> names) {
  throw Error(fmt::format(fmt::runtime(sentence), word) + hint(word, names), ErrorKind::usage);
}

}  // namespace ridgepoint
