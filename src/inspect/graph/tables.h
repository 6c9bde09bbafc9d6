// A graph and the passes that made it, as tables, and as a drawing in the language of Graphviz.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/compile.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

struct NodeCounts {
  std::int64_t nodes = 0;
  std::int64_t launches = 0;           // nodes that run a kernel
  std::map<Op, std::int64_t> by_op{};  // ops without a node are left out
};
NodeCounts count_nodes(const Graph& graph);

// A pass with the graph before and after it.
struct PassEffect {
  PassResult result;
  NodeCounts before;
  NodeCounts after;
};

// One row a pass: its time, and the nodes that it added and removed, by op.
Table pass_table(const std::string& graph_name, std::span<const PassEffect> passes);

// One row for each phase and op (or body of a fused node): nodes, launches, operations, bytes, and the ops that a fused
// node replaces. Rows are in the order of phases, most bytes first. Throws Error if a count overflows 64 bits.
Table op_table(const Graph& graph, Format format);

// A graph with more nodes is drawn with one box for each module and phase instead of one for each node.
inline constexpr std::size_t kMostDrawnNodes = 1500;

// A digraph: nested clusters are the levels of the scope, colours are the phases, edges have the type of their value.
// Constants are written at their readers. The text ends with a line break.
std::string dot_text(const Graph& graph);

}  // namespace ridgepoint::tables
