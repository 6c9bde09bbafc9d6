// Puts each update of the optimizer after a product of backward, as soon as the update is ready, if the device can run
// updates beside other launches. An update is memory-bound and a product compute-bound, and a product of few tiles
// leaves multiprocessors idle. Gradients are freed earlier too.
// Updates of small tensors stay after backward. All updates stay there if the run is not captured, or if gradients are
// clipped or scaled. On several ranks an update is ready when the next sum of gradients begins: backward then does not
// wait for the update's own sum, and updates are left to run beside the last sums. With states or weights on the host,
// the copies decide the order.
#include <algorithm>
#include <map>
#include <vector>

#include "ir/queries.h"
#include "ops/collectives.h"
#include "ops/rule.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/memory/update_order.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

// The least parameters of a launch: so many that the time to start the launch does not count.
constexpr std::int64_t kGroupElements = std::int64_t{16} << 20;
// The update of so many parameters takes as long as the start of a launch.
constexpr std::int64_t kLeastElements = std::int64_t{1} << 18;
// How many later updates may begin before an update must have ended, so that its gradients are freed.
constexpr std::int64_t kInFlightUpdates = 8;
// The bytes that an H100 or H200 moves in its memory while it sends one to another by NVLink, about.
constexpr double kMovedBytesOfSentByte = 12;

struct Move {
  NodeId update;
  std::size_t ready = 0;
  std::int64_t elements = 0;
};

// The bytes of gradients that ranks send after the node at position `last`.
double bytes_sent_behind(const Graph& graph, const UpdateOrder& order, std::size_t last) {
  double bytes = 0;
  for (const NodeId id : order.nodes().subspan(last + 1)) {
    const Node& node = graph.node(id);
    if (op_class(node.op) == OpClass::collective && node.phase != Phase::optimizer) bytes += wire_bytes(graph, node);
  }
  return bytes;
}

std::vector<Move> moves_of(const Graph& graph, const UpdateOrder& order, const PassTarget& target) {
  std::vector<Move> moves;
  // Nothing runs beside what follows the last product.
  const std::size_t last = order.products()[order.products().size() - 2];
  for (const NodeId id : order.nodes()) {
    const Node& node = graph.node(id);
    if (!optimizer_layout(node) || updates_several_tensors(node)) continue;
    if (!target.runs_update_beside(graph, node) || !target.has_kernel(graph, node)) continue;
    const Move move{id, order.ready(id), graph.type(node.outputs[0]).shape.elements()};
    if (move.elements >= kLeastElements && move.ready <= last) moves.push_back(move);
  }
  std::ranges::stable_sort(moves, {}, &Move::ready);
  for (double stay = kMovedBytesOfSentByte * bytes_sent_behind(graph, order, last); stay > 0 && !moves.empty();) {
    stay -= static_cast<double>(cost(graph, graph.node(moves.back().update)).bytes);
    moves.pop_back();
  }
  return moves;
}

}  // namespace

bool spread_updates(Graph& graph, const PassOptions& options) {
  if (options.target.runs_update_beside == nullptr || options.level != Compile::full) return false;
  const bool copies_decide = includes(options.offload, Offload::optimizer | Offload::parameters);
  if (copies_decide) return false;
  UpdateOrder order(graph);
  if (order.products().size() < 2) return false;
  const std::vector<Move> moves = moves_of(graph, order, options.target);
  std::map<std::size_t, std::vector<NodeId>> behind;
  for (auto begin = moves.begin(); begin != moves.end();) {
    std::int64_t elements = 0;
    auto end = begin;
    while (end != moves.end() && elements < kGroupElements) elements += (end++)->elements;
    const std::size_t product = *std::ranges::lower_bound(order.products(), std::prev(end)->ready);
    for (; begin != end; ++begin) behind[product].push_back(begin->update);
  }
  if (behind.empty()) return false;
  for (const auto& [position, updates] : behind) {
    for (const NodeId id : updates) {
      graph.node(id).attributes.set(kBeside, true);
      graph.node(id).attributes.set(kInFlight, kInFlightUpdates);
    }
  }
  order.reorder(behind, {});
  return true;
}

}  // namespace ridgepoint
