// Graphs in the tests of passes: the text form with defaults. A line without phase and scope means  @forward "" "".
// Comparison ignores sources, origins and the numbers of values.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

#include "passes/pass.h"
#include "ridgepoint/ir/graph.h"
#include "support/graphs/run_by_definition.h"

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
  std::getline(stream, line);  // the line of the graph
  while (std::getline(stream, line)) {
    if (line.ends_with(kForward)) line.resize(line.size() - kForward.size());
    lines += line + "\n";
  }
  return lines;
}

using RunPass = bool (*)(Graph&, const PassOptions&);

// A device with or without kernels for composites, whose kernels support any layout.
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

// Expects that the pass reports a change and that the result passes verify().
inline void expect_changed(RunPass pass, Graph& graph, const PassTarget& target = target_with_kernels()) {
  PassOptions options({.level = Compile::fuse});
  options.target = target;
  EXPECT_TRUE(pass(graph, options)) << "it says that it changed nothing";
  graph.set_insertion_at_end();
  verify(graph);
}

// `after` in full: "..." in its first line stands for the lines of `before` up to the number of the next line, or,
// where `before` has no such number, up to its outputs.
inline std::string after_lines(std::string_view before, std::string_view after) {
  constexpr std::string_view kAsBefore = "\n...\n";
  if (!after.starts_with(kAsBefore)) return std::string(after);
  const std::string_view rest = after.substr(kAsBefore.size() - 1);
  std::size_t end = before.find(rest.substr(0, rest.find(':') + 1));
  if (end == std::string_view::npos) end = std::min(before.find("\noutput"), before.find("\nupdate"));
  return std::string(before.substr(0, end)) + std::string(rest);
}

// Expects that the pass rewrites `before` into `after`, of which after_lines() is in full, and reports a change. Both
// begin with a line break.
inline void expect_rewritten(RunPass pass, std::string_view before, std::string_view after,
                             const PassTarget& target = target_with_kernels()) {
  Graph graph = graph_of(before);
  expect_changed(pass, graph, target);
  eliminate_dead_code(graph, {});
  EXPECT_EQ(lines_of(graph), after_lines(before, after));
}

// The lines of both graphs, which begin with a blank, and those of one, which begin with its mark.
inline std::string lines_with(char mark, std::string_view marked) {
  std::string lines = "\n";
  std::istringstream stream{std::string(marked)};
  for (std::string line; std::getline(stream, line);)
    if (!line.empty() && (line[0] == ' ' || line[0] == mark)) lines += line.substr(1) + "\n";
  return lines;
}

// The same of one text: the lines that the pass removes begin with -, those that it adds with +, all others with a
// blank.
inline void expect_rewritten(RunPass pass, std::string_view marked, const PassTarget& target = target_with_kernels()) {
  expect_rewritten(pass, lines_with('-', marked), lines_of(graph_of(lines_with('+', marked))), target);
}

// Expects that the pass changes nothing and reports no change.
inline void expect_left(RunPass pass, std::string_view before, const PassTarget& target = target_with_kernels()) {
  Graph graph = graph_of(before);
  const std::string text = print_graph(graph);
  PassOptions options({.level = Compile::fuse});
  options.target = target;
  EXPECT_FALSE(pass(graph, options)) << "it says that it changed something";
  EXPECT_EQ(print_graph(graph), text);
}

// Expects that the pass reports a change and that all outputs on the reference device are bitwise equal.
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

namespace ridgepoint {

using testing::expect_changed;
using testing::expect_left;
using testing::expect_rewritten;
using testing::expect_same_values;
using testing::graph_of;
using testing::target_with_kernels;

}  // namespace ridgepoint
