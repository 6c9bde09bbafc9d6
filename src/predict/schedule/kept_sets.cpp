#include "predict/schedule/kept_sets.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "ops/rule.h"

namespace ridgepoint {
namespace {

class Model {
 public:
  Model(const Graph& graph, const BlockTensors& tensors, double flops_per_byte) : tensors_(tensors) {
    for (const BlockNode& node : tensors.nodes) {
      const Node& of = graph.node(node.id);
      const Cost work = ridgepoint::cost(graph, of);
      cost_.push_back(std::max(static_cast<double>(work.bytes), static_cast<double>(work.flops) / flops_per_byte));
      std::vector<double>& bytes = bytes_.emplace_back();
      for (const Value value : of.outputs) bytes.push_back(static_cast<double>(graph.type(value).bytes()));
    }
  }

  KeptSetCost cost(const KeptSet& kept) {
    // Bit i: output i is kept; of a node that is computed again, any bit.
    needed_.assign(cost_.size(), 0);
    found_ = {};
    kept_ = &kept;
    for (std::size_t i = 0; i < cost_.size(); ++i) {
      for (const std::size_t output : tensors_.nodes[i].backward_reads) need({i, output});
    }
    return found_;
  }

  double bytes_of_tensor(std::size_t tensor) const {
    double sum = 0;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (tensors_.nodes[i].tensor == tensor) sum += std::accumulate(bytes_[i].begin(), bytes_[i].end(), 0.0);
    }
    return sum;
  }

 private:
  void need(const BlockValue& value) {
    const BlockNode& node = tensors_.nodes[value.node];
    const std::uint64_t bit = std::uint64_t{1} << value.output;
    std::uint64_t& needed = needed_[value.node];
    if (node.is_always_kept || (node.tensor && (*kept_)[*node.tensor])) {
      if ((needed & bit) == 0 && !node.is_always_kept) found_.bytes += bytes_[value.node][value.output];
      needed |= bit;
      return;
    }
    if (needed != 0) return;
    needed = bit;
    found_.recomputation += cost_[value.node];
    for (const BlockValue& operand : node.operands) need(operand);
  }

  const BlockTensors& tensors_;
  std::vector<double> cost_;                // by node
  std::vector<std::vector<double>> bytes_;  // by node and output
  std::vector<std::uint64_t> needed_;
  const KeptSet* kept_ = nullptr;
  KeptSetCost found_;
};

// By tensor: the number of its choice. A small tensor has the choice of the tensor before it.
std::vector<std::size_t> choices_of(const Model& model, std::size_t tensors) {
  std::vector<std::size_t> order(tensors), choices(tensors);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t t) { return model.bytes_of_tensor(t); });
  std::vector<bool> has_own(tensors);
  for (std::size_t i = 0; i < std::min(tensors, kMostChoices); ++i) has_own[order[i]] = true;
  std::size_t next = 0;
  for (std::size_t i = 0; i < tensors; ++i) {
    if (has_own[i]) ++next;
    choices[i] = next == 0 ? 0 : next - 1;
  }
  return choices;
}

// The time at this number of bytes on the line between two sets; outside of the line, the time of the nearer set.
double time_between(const KeptSetCost& left, const KeptSetCost& right, double bytes) {
  if (bytes <= left.bytes) return left.recomputation;
  if (bytes >= right.bytes) return right.recomputation;
  const double share = (bytes - left.bytes) / (right.bytes - left.bytes);
  return left.recomputation + share * (right.recomputation - left.recomputation);
}

// Whether the set lies on the line between two others, or above it.
bool is_above(const KeptSetCost& set, const KeptSetCost& left, const KeptSetCost& right) {
  return set.recomputation >= time_between(left, right, set.bytes);
}

}  // namespace

KeptSetCost cost_of(const Graph& graph, const BlockTensors& tensors, const KeptSet& kept, double flops_per_byte) {
  return Model(graph, tensors, flops_per_byte).cost(kept);
}

KeptSet computed_again(const BlockTensors& tensors, const KeptSet& kept) {
  KeptSet again(kept.size());
  std::vector<bool> is_needed(tensors.nodes.size());
  // A node comes after its operands.
  for (std::size_t i = is_needed.size(); i-- > 0;) {
    const BlockNode& node = tensors.nodes[i];
    if (!is_needed[i] && node.backward_reads.empty()) continue;
    if (node.is_always_kept || (node.tensor && kept[*node.tensor])) continue;
    if (node.tensor) again[*node.tensor] = true;
    for (const BlockValue& operand : node.operands) is_needed[operand.node] = true;
  }
  return again;
}

std::vector<std::size_t> nearest_to_hull(std::span<const KeptSetCost> costs, std::size_t most) {
  const auto figures = [&](std::size_t i) { return std::pair(costs[i].bytes, costs[i].recomputation); };
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, figures);
  const auto repeated = std::ranges::unique(order, {}, figures);
  order.erase(repeated.begin(), repeated.end());
  std::vector<std::size_t> hull;  // its slopes rise to 0
  for (const std::size_t i : order) {
    if (!hull.empty() && costs[i].recomputation >= costs[hull.back()].recomputation) continue;
    while (hull.size() > 1 && is_above(costs[hull.back()], costs[hull[hull.size() - 2]], costs[i])) hull.pop_back();
    hull.push_back(i);
  }
  const double bytes_range = std::max(costs[order.back()].bytes - costs[order.front()].bytes, 1.0);
  const double time_range = std::max(costs[hull.front()].recomputation - costs[hull.back()].recomputation, 1e-12);
  std::vector<double> distance(costs.size());
  for (const std::size_t i : order) {
    const auto next = std::ranges::lower_bound(hull, costs[i].bytes, {}, [&](std::size_t h) { return costs[h].bytes; });
    const KeptSetCost& right = costs[next == hull.end() ? hull.back() : *next];
    const KeptSetCost& left = next == hull.begin() ? right : costs[*std::prev(next)];
    distance[i] = (costs[i].recomputation - time_between(left, right, costs[i].bytes)) / time_range +
                  std::max(costs[i].bytes - right.bytes, 0.0) / bytes_range;
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return distance[i]; });
  order.resize(std::min(order.size(), most));
  return order;
}

std::vector<KeptSet> sets_worth_keeping(const Graph& graph, const BlockTensors& tensors, double flops_per_byte,
                                        std::size_t most) {
  Model model(graph, tensors, flops_per_byte);
  const std::vector<std::size_t> choices = choices_of(model, tensors.names.size());
  const std::size_t count = choices.empty() ? 0 : choices.back() + 1;
  // A set with a tensor that nothing needs costs the same as the set without it, which comes first.
  std::map<std::pair<double, double>, KeptSet> by_cost;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << count; ++bits) {
    KeptSet kept(choices.size());
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = ((bits >> choices[i]) & 1) != 0;
    const KeptSetCost cost = model.cost(kept);
    by_cost.emplace(std::pair(cost.bytes, cost.recomputation), std::move(kept));
  }
  std::vector<KeptSet> all;
  std::vector<KeptSetCost> costs;
  for (auto& [cost, kept] : by_cost) {
    all.push_back(std::move(kept));
    costs.push_back({cost.first, cost.second});
  }
  std::vector<KeptSet> sets;
  for (const std::size_t i : nearest_to_hull(costs, most)) sets.push_back(all[i]);
  return sets;
}

}  // namespace ridgepoint
