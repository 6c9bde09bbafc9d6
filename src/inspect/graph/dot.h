// A graph in the language of Graphviz.
#pragma once

#include <cstddef>
#include <string>

#include "ridgepoint/graph.h"

namespace ridgepoint::views {

// A graph with more nodes is drawn with one box for each module and phase instead of one for each node.
inline constexpr std::size_t kMostDrawnNodes = 1500;

// A digraph: nested clusters are the levels of the scope, colours are the phases, edges have the type of their value.
// Constants are written at their readers. The text ends with a line break.
std::string dot_text(const Graph& graph);

}  // namespace ridgepoint::views
