#include "ir/scope.h"

#include <algorithm>

namespace ridgepoint {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::vector<std::string> scope_levels(std::string_view scope, Layers layers) {
  std::vector<std::string> levels;
  while (!scope.empty()) {
    const std::size_t end = std::min(scope.find('.'), scope.size());
    const std::string_view part = scope.substr(0, end);
    if (is_number(part) && !levels.empty()) {
      levels.back().append(1, '.').append(layers == Layers::apart ? part : "*");
    } else {
      levels.emplace_back(part);
    }
    scope.remove_prefix(std::min(end + 1, scope.size()));
  }
  return levels;
}

std::string with_layers_added_up(std::string_view scope) {
  std::string text;
  for (const std::string& level : scope_levels(scope, Layers::added_up)) text += (text.empty() ? "" : ".") + level;
  return text;
}

}  // namespace ridgepoint
