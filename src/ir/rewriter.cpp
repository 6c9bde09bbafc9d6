#include "ir/rewriter.h"

namespace ridgepoint {
namespace {

NodeId next_node(const Graph& graph) { return {static_cast<std::uint32_t>(graph.node_capacity())}; }

}  // namespace

GraphSettings::~GraphSettings() {
  graph_.set_phase(phase_);
  graph_.set_scope(scope_);
}

void set_origin(Graph& graph, NodeId first, Op composite) {
  for (NodeId id = first; id < next_node(graph); ++id.id) {
    Node& node = graph.node(id);
    if (!node.origin) node.origin = composite;
  }
}

}  // namespace ridgepoint
