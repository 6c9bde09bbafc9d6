// Graphs as the tests of passes write and compare them: the text form less what does not matter there. A line that says
// nothing of phase and scope means  @forward "" "";  where nodes were built and what they are pieces of is left out,
// values are renumbered.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

#include "passes/pass.h"
#include "ridgepoint/graph.h"
#include "support/run_by_definition.h"

namespace ridgepoint::testing {

inline constexpr std::string_view kForward = " @forward \"\" \"\"";

inline Graph graph_of(std::string_view lines) {
  std::string text = "graph \"g\"\n";
  std::istringstream stream{std::string(lines)};
  for (std::string line; std::getline(stream, line);) {
    const bool is_bare = line.starts_with('%') && line.find(" @") == std::string::npos;
    text += line + (is_bare ? std::string(kForward) : "") + "\n";
  }
  return parse_graph(text);
}

inline std::string lines_of(Graph graph) {
  for (const NodeId id : graph.order()) {
    graph.node(id).source = 0;
    graph.node(id).origin.reset();
  }
  std::istringstream stream(print_graph(parse_graph(print_graph(graph))));
  std::string lines = "\n";
  std::string line;
  std::getline(stream, line);  // the graph's own
  while (std::getline(stream, line)) {
    if (line.ends_with(kForward)) line.resize(line.size() - kForward.size());
    lines += line + "\n";
  }
  return lines;
}

using RunPass = bool (*)(Graph&, const PassOptions&);

// A device with or without kernels for composites, which takes operands as they lie.
inline PassTarget target_with_kernels(bool has_kernels = true) {
  PassTarget target;
  target.has_kernel = [has_kernels](const Graph&, const Node&) { return has_kernels; };
  target.operand_layout = [](const Graph&, const Node&, int) { return OperandLayout::any; };
  return target;
}

inline std::size_t count(const Graph& graph, Op op) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.order(), [&](NodeId id) { return graph.node(id).op == op; }));
}

// The pass changes the graph, says so and leaves one that holds.
inline void expect_changed(RunPass pass, Graph& graph, const PassTarget& target = target_with_kernels()) {
  PassOptions options({.level = Compile::fuse});
  options.target = target;
  EXPECT_TRUE(pass(graph, options)) << "it says that it changed nothing";
  graph.set_insertion_at_end();
  verify(graph);
}

// The pass turns the one graph into the other, and says that it changed something. Both begin with a line break.
inline void expect_rewritten(RunPass pass, std::string_view before, std::string_view after,
                             const PassTarget& target = target_with_kernels()) {
  Graph graph = graph_of(before);
  expect_changed(pass, graph, target);
  eliminate_dead_code(graph, {});
  EXPECT_EQ(lines_of(graph), after);
}

// The pass leaves the graph as it is, and says so.
inline void expect_left(RunPass pass, std::string_view before, const PassTarget& target = target_with_kernels()) {
  Graph graph = graph_of(before);
  const std::string text = print_graph(graph);
  PassOptions options({.level = Compile::fuse});
  options.target = target;
  EXPECT_FALSE(pass(graph, options)) << "it says that it changed something";
  EXPECT_EQ(print_graph(graph), text);
}

// The pass changes something, and no bit of what the graph computes on the reference device.
inline void expect_same_values(RunPass pass, std::string_view before) {
  Graph graph = graph_of(before);
  OpCase positive{Op::input, "", nullptr};
  positive.low = 0.5;
  const Tensors inputs = random_inputs(graph, positive, 7);
  const Tensors expected = run_by_definition(graph, inputs);
  expect_changed(pass, graph);
  for (const auto& [name, tensor] : run_by_definition(graph, inputs))
    EXPECT_EQ(tensor.data, expected.at(name).data) << name;
}

}  // namespace ridgepoint::testing
