#include "inspect/graph/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "core/text/units.h"
#include "ops/rule.h"

namespace ridgepoint::tables {
namespace {

// "+20 matmul, -5 cast"; a dash where every op has as many nodes as before.
std::string changes_of(const PassEffect& pass) {
  std::map<Op, std::int64_t> changes = pass.after.by_op;
  for (const auto& [op, count] : pass.before.by_op) changes[op] -= count;
  std::string text;
  for (const auto& [op, change] : changes) {
    if (change != 0) text += fmt::format("{}{:+} {}", text.empty() ? "" : ", ", change, name(op));
  }
  return text.empty() ? "-" : text;
}

// The ops of a body, without its operands, constants and views: "2 add, mul".
std::string replaced_by(const FusedBody& body) {
  std::map<Op, int> counts;
  for (const NodeId id : body.graph.order()) {
    const Op op = body.graph.node(id).op;
    if (launches(op)) ++counts[op];
  }
  std::string text;
  for (const auto& [op, count] : counts) {
    text += text.empty() ? "" : ", ";
    text += count == 1 ? std::string(name(op)) : fmt::format("{} {}", count, name(op));
  }
  return text;
}

struct OpRow {
  Phase phase = Phase::forward;
  std::string_view name;
  Op op = Op::input;
  std::int64_t nodes = 0;
  Cost cost;
  std::string replaces;
};

std::vector<OpRow> op_rows(const Graph& graph) {
  std::map<std::tuple<Phase, std::string_view, std::string>, OpRow> rows;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    // Bodies with the same name may have different ops.
    const std::string replaces = node.body != nullptr ? replaced_by(*node.body) : std::string();
    OpRow& row = rows[{node.phase, operation_name(node), replaces}];
    row.phase = node.phase;
    row.name = operation_name(node);
    row.op = node.op;
    row.replaces = replaces;
    const Cost cost = ridgepoint::cost(graph, node);
    ++row.nodes;
    row.cost.flops = checked_sum({row.cost.flops, cost.flops}, "the number of operations");
    row.cost.bytes = checked_sum({row.cost.bytes, cost.bytes}, "the number of bytes");
  }
  std::vector<OpRow> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  std::ranges::stable_sort(sorted, [](const OpRow& a, const OpRow& b) {
    return a.phase != b.phase ? a.phase < b.phase : a.cost.bytes > b.cost.bytes;
  });
  return sorted;
}

std::string total_of(const std::vector<OpRow>& rows) {
  std::int64_t nodes = 0, kernels = 0, fused = 0;
  Cost sum;
  for (const OpRow& row : rows) {
    nodes += row.nodes;
    kernels += launches(row.op) ? row.nodes : 0;
    fused += row.op == Op::fused ? row.nodes : 0;
    sum.flops = checked_sum({sum.flops, row.cost.flops}, "the number of operations");
    sum.bytes = checked_sum({sum.bytes, row.cost.bytes}, "the number of bytes");
  }
  return fmt::format("{} nodes, {} launches, {} of them fused; {}flop and {} a run.", nodes, kernels, fused,
                     format_count(static_cast<double>(sum.flops)), format_bytes(static_cast<std::uint64_t>(sum.bytes)));
}

}  // namespace

NodeCounts count_nodes(const Graph& graph) {
  NodeCounts counts;
  for (const NodeId id : graph.order()) {
    const Op op = graph.node(id).op;
    ++counts.nodes;
    ++counts.by_op[op];
    if (launches(op)) ++counts.launches;
  }
  return counts;
}

Table pass_table(const std::string& graph_name, std::span<const PassEffect> passes) {
  Table table;
  table.caption = fmt::format("Passes of {}", graph_name);
  table.columns = {
      {"pass", "pass"},   {"changed", "changed"},   {"milliseconds", "ms", "{:.2f}"}, {"nodes_before", "nodes before"},
      {"nodes", "after"}, {"launches", "launches"}, {"changes", "added and removed"}};
  table.least_last_columns = 20;
  double milliseconds = 0;
  for (const PassEffect& pass : passes) {
    table.add({std::string(pass.result.name), std::string(pass.result.changed ? "yes" : "no"), pass.result.milliseconds,
               pass.before.nodes, pass.after.nodes, pass.after.launches, changes_of(pass)});
    milliseconds += pass.result.milliseconds;
  }
  table.note =
      fmt::format("{} passes took {:.1f} ms. Launches are counted after the pass.", passes.size(), milliseconds);
  return table;
}

Table op_table(const Graph& graph, Format format) {
  const std::vector<OpRow> rows = op_rows(graph);
  Table table;
  table.caption = fmt::format("Ops of {}", graph.name);
  table.columns = {{"phase", "phase"},
                   {"op", "op"},
                   {"class", "class", "{}", Align::by_content, 1},
                   {"nodes", "nodes"},
                   {"launches", "launches"},
                   {"flops", "flop", "{}", Align::right},
                   {"bytes", "bytes", "{}", Align::right},
                   {"replaces", "replaces"}};
  table.key_columns = 2;
  table.least_last_columns = 20;
  for (const OpRow& row : rows) {
    Cells cells = {std::string(name(row.phase)), std::string(row.name), std::string(name(op_class(row.op))), row.nodes,
                   launches(row.op) ? row.nodes : std::int64_t{0}};
    if (is_for_people(format)) {
      cells.emplace_back(format_count(static_cast<double>(row.cost.flops)));
      cells.emplace_back(format_bytes(static_cast<std::uint64_t>(row.cost.bytes)));
    } else {
      cells.emplace_back(row.cost.flops);
      cells.emplace_back(row.cost.bytes);
    }
    cells.push_back(text_cell(row.replaces));
    table.add(std::move(cells));
  }
  table.note = total_of(rows);
  return table;
}

}  // namespace ridgepoint::tables
