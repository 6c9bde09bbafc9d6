#include "passes/training/training.h"

#include <algorithm>
#include <set>

#include "core/text/nearest.h"

namespace ridgepoint {
namespace {

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

// Greedy: after a mismatch the last star takes one character more.
bool part_matches(std::string_view pattern, std::string_view part) {
  std::size_t at = 0, in = 0, star = std::string_view::npos, taken = 0;
  while (in < part.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      taken = in;
    } else if (at < pattern.size() && pattern[at] == part[in]) {
      ++at;
      ++in;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

bool parts_match(const std::vector<std::string_view>& pattern, const std::vector<std::string_view>& name) {
  return !std::ranges::search(name, pattern, [](std::string_view part, std::string_view wanted) {
            return part_matches(wanted, part);
          }).empty();
}

// Every part of the names that is not a number, once.
std::set<std::string_view> words_of(const std::vector<std::string>& names) {
  std::set<std::string_view> words;
  for (const std::string& name : names) {
    for (const std::string_view part : parts_of(name)) {
      if (part.find_first_not_of("0123456789") != std::string_view::npos) words.insert(part);
    }
  }
  return words;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) { return parts_match(parts_of(pattern), parts_of(name)); }

std::vector<bool> matches_of(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                             std::string_view what) {
  std::vector<bool> found(names.size());
  for (const std::string& pattern : patterns) {
    const std::vector<std::string_view> wanted = parts_of(pattern);
    bool is_found = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!parts_match(wanted, parts_of(names[i]))) continue;
      found[i] = is_found = true;
    }
    if (is_found) continue;
    std::set<std::string_view> words = words_of(names);
    if (wanted.size() > 1) words.insert(names.begin(), names.end());
    refuse_name(pattern, "no " + std::string(what) + " matches '{}'",
                std::vector<std::string_view>(words.begin(), words.end()));
  }
  return found;
}

}  // namespace ridgepoint
