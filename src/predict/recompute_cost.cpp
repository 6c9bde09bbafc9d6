#include "predict/recompute_cost.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "core/checked.h"
#include "ir/scope.h"
#include "ops/node_key.h"

namespace ridgepoint {
namespace {

// Calls visit(node, cost) for every recomputed node. The costs of equal nodes are computed once.
template <typename Visitor>
void visit_recomputed(const Graph& graph, const Visitor& visit) {
  std::unordered_map<std::string, Cost> costs;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.phase != Phase::recompute) continue;
    const auto [known, is_new] = costs.try_emplace(typed_key(graph, node));
    if (is_new) known->second = cost(graph, node);
    visit(node, known->second);
  }
}

}  // namespace

Cost recomputation(const Graph& graph) {
  Cost sum;
  visit_recomputed(graph, [&](const Node&, const Cost& cost) {
    sum.flops = checked_sum({sum.flops, cost.flops}, "the recomputed operations");
    sum.bytes = checked_sum({sum.bytes, cost.bytes}, "the bytes of recomputation");
  });
  return sum;
}

std::vector<double> recompute_cost_by_block(const Graph& graph, std::span<const std::string> blocks,
                                            double flops_per_byte) {
  std::map<std::string_view, double> costs;
  visit_recomputed(graph, [&](const Node& node, const Cost& cost) {
    costs[block_of(graph.scope_name(node))] +=
        std::max(static_cast<double>(cost.bytes), static_cast<double>(cost.flops) / flops_per_byte);
  });
  std::vector<double> by_block;
  for (const std::string& block : blocks) by_block.push_back(costs[block]);
  return by_block;
}

}  // namespace ridgepoint
