#include "ir/scope.h"

#include <algorithm>
#include <set>

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

std::string_view block_of(std::string_view scope) {
  for (std::size_t begin = 0; begin < scope.size();) {
    const std::size_t end = std::min(scope.find('.', begin), scope.size());
    const std::string_view component = scope.substr(begin, end - begin);
    if (is_number(component)) return scope.substr(0, end);
    begin = end + 1;
  }
  return {};
}

std::vector<std::string> blocks_of(const Graph& graph) {
  std::vector<std::string> blocks;
  std::set<std::string_view> known = {""};
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::forward || node.op == Op::input) continue;
    const std::string_view block = block_of(graph.scope_name(node));
    if (known.insert(block).second) blocks.emplace_back(block);
  }
  return blocks;
}

}  // namespace ridgepoint
