#include "passes/memory/blocks.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace ridgepoint {

std::string_view block_of(std::string_view scope) {
  for (std::size_t begin = 0; begin < scope.size();) {
    const std::size_t end = std::min(scope.find('.', begin), scope.size());
    const std::string_view component = scope.substr(begin, end - begin);
    const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    if (!component.empty() && std::ranges::all_of(component, is_digit)) return scope.substr(0, end);
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
