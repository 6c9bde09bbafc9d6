#include "inspect/graph/tables.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/text.h"
#include "ir/queries.h"
#include "ir/scope.h"
#include "ops/rule.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint::tables {
namespace {

// The boxes of a drawing, in clusters by the levels of their scopes.
class DotClusters {
 public:
  // `statement` declares one box; `scope` is a dotted name.
  void add(std::string_view scope, std::string statement);
  // The nested clusters, in the order in which their first box was added.
  std::string text() const;

 private:
  struct Cluster {
    std::string name;
    std::vector<std::string> statements;
    std::vector<std::size_t> children;
    std::map<std::string, std::size_t, std::less<>> by_name;
  };
  void write(std::size_t index, int depth, std::string& text) const;

  std::vector<Cluster> clusters_ = std::vector<Cluster>(1);  // the first is the whole drawing
};

// Deeper levels share a cluster: scopes of files may have any number of levels.
constexpr std::size_t kMostLevels = 16;

// In the order of Phase: blue, yellow, purple, red, green.
constexpr std::array<std::string_view, kPhaseCount> kColours = {"#cfe2f3", "#fff2cc", "#d9d2e9", "#f4cccc", "#d9ead3"};

std::string indented(int depth) { return std::string(2 * static_cast<std::size_t>(depth), ' '); }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : valid_utf8(text)) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// The lines of a label as one quoted string. Quotation marks, backslashes and line breaks are escaped.
std::string dot_label(const std::vector<std::string>& lines) {
  std::string text = "\"";
  for (std::size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "" : "\\n") + escaped(lines[i]);
  return text + '"';
}

// The fill colour of a phase, #rrggbb.
std::string_view dot_colour(Phase phase) { return kColours[static_cast<std::size_t>(phase)]; }

void DotClusters::add(std::string_view scope, std::string statement) {
  std::size_t at = 0;
  std::vector<std::string> levels = scope_levels(scope);
  if (levels.size() > kMostLevels) levels.resize(kMostLevels);
  for (const std::string& level : levels) {
    const auto [child, is_new] = clusters_[at].by_name.try_emplace(level, clusters_.size());
    const std::size_t next = child->second;  // emplace_back() may move the map
    if (is_new) {
      clusters_[at].children.push_back(next);
      clusters_.emplace_back().name = level;
    }
    at = next;
  }
  clusters_[at].statements.push_back(std::move(statement));
}

std::string DotClusters::text() const {
  std::string result;
  write(0, 1, result);
  return result;
}

void DotClusters::write(std::size_t index, int depth, std::string& text) const {
  const Cluster& cluster = clusters_[index];
  for (const std::string& statement : cluster.statements) text += indented(depth) + statement + '\n';
  for (const std::size_t child : cluster.children) {
    text += fmt::format("{}subgraph cluster_{} {{\n{}label={};\n", indented(depth), child, indented(depth + 1),
                        dot_label({clusters_[child].name}));
    write(child, depth + 1, text);
    text += indented(depth) + "}\n";
  }
}

std::string box(const std::string& id, const std::vector<std::string>& lines, Phase phase, bool is_input = false) {
  return fmt::format("{} [label={}, fillcolor=\"{}\"{}];", id, dot_label(lines), dot_colour(phase),
                     is_input ? ", shape=ellipse" : "");
}

std::string edge(const std::string& from, const std::string& to, const std::string& label, std::string_view more = "") {
  return fmt::format("  {} -> {} [label={}{}];\n", from, to, dot_label({label}), more);
}

// A drawing, made of the names and texts of single nodes.
class Drawing {
 public:
  explicit Drawing(const Graph& graph) : graph_(graph), is_result_(results_of(graph)) {}
  virtual ~Drawing() = default;
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

  std::string text() {
    draw();
    std::string more;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Output& output = graph_.outputs()[i];
      more += fmt::format("  o{} [label={}, shape=ellipse, fillcolor=\"#ffffff\"];\n", i, dot_label({output.name}));
      more += edge(id_of(graph_.producer(output.value)), fmt::format("o{}", i), graph_.type(output.value).to_string());
    }
    return head() + clusters_.text() + edges_ + more + "}\n";
  }

 protected:
  virtual void draw() = 0;
  // The box that has the node.
  virtual std::string id_of(NodeId node) const = 0;
  virtual std::string what() const = 0;

  // Constants are written at their readers, unless they are results.
  bool is_drawn(const Node& node) const { return node.op != Op::constant || is_result_[node.outputs[0].id]; }

  const Graph& graph_;
  DotClusters clusters_;
  std::string edges_;

 private:
  std::vector<bool> is_result_;  // by value

  std::string head() const {
    return fmt::format(
        "digraph {} {{\n  label={};\n  labelloc=t;\n  node [shape=box, style=filled, fontname=\"Helvetica\"];\n"
        "  edge [fontname=\"Helvetica\", fontsize=9];\n",
        dot_label({graph_.name}),
        dot_label({graph_.name, what(), "forward blue, loss yellow, backward red, optimizer green"}));
  }
};

// One box for each node.
class NodeDrawing : public Drawing {
 public:
  using Drawing::Drawing;

 private:
  void draw() override {
    for (const NodeId id : graph_.order()) {
      if (is_drawn(graph_.node(id))) add(id);
    }
    for (const Update& update : graph_.updates()) {
      edges_ += edge(id_of(graph_.producer(update.value)), id_of(graph_.producer(update.input)), "update",
                     ", style=dashed, constraint=false");
    }
  }
  std::string id_of(NodeId node) const override { return fmt::format("n{}", node.id); }
  std::string what() const override { return fmt::format("{} nodes", graph_.order().size()); }

  void add(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<std::string> lines = {std::string(operation_name(node))};
    if (node.op == Op::input) lines.push_back(input_name(node));
    if (node.op == Op::constant) lines.push_back(fmt::format("{}", constant_value(node)));
    for (const Value value : node.inputs) {
      const Node& producer = graph_.producer_node(value);
      if (is_drawn(producer)) {
        edges_ += edge(id_of(graph_.producer(value)), id_of(id), graph_.type(value).to_string());
      } else {
        lines.push_back(fmt::format("{}", constant_value(producer)));
      }
    }
    clusters_.add(graph_.scope_name(node), box(id_of(id), lines, node.phase, node.op == Op::input));
  }
};

// One box for each module and phase.
class ModuleDrawing : public Drawing {
 public:
  using Drawing::Drawing;

 private:
  using Key = std::pair<std::uint32_t, Phase>;  // scope and phase
  struct Module {
    NodeId first;
    std::map<std::string, int, std::less<>> nodes;  // by operation
  };

  void draw() override {
    std::vector<Key> in_order;
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!is_drawn(node)) continue;
      const auto [found, is_new] = modules_.try_emplace(key_of(node), Module{id, {}});
      if (is_new) in_order.push_back(found->first);
      ++found->second.nodes[std::string(operation_name(node))];
    }
    for (const Key& key : in_order) add(modules_.at(key));
    add_edges();
  }
  std::string id_of(NodeId node) const override {
    return fmt::format("m{}", modules_.at(key_of(graph_.node(node))).first.id);
  }
  std::string what() const override {
    return fmt::format("{} nodes, in one box for each module and phase", graph_.order().size());
  }

  static Key key_of(const Node& node) { return {node.scope, node.phase}; }

  void add(const Module& module) {
    const Node& node = graph_.node(module.first);
    const std::string& scope = graph_.scope_name(node);
    std::vector<std::string> levels = scope_levels(scope);
    std::vector<std::string> lines = {levels.empty() ? "no module" : levels.back()};
    for (const auto& [operation, count] : module.nodes) lines.push_back(fmt::format("{} {}", count, operation));
    const std::size_t parent = levels.size() < 2 ? 0 : scope.size() - levels.back().size() - 1;
    clusters_.add(std::string_view(scope).substr(0, parent), box(id_of(module.first), lines, node.phase));
  }

  // Between two boxes one edge, with the type of its value or the number of values.
  void add_edges() {
    std::map<std::pair<std::string, std::string>, std::set<Value>> values;
    for (const NodeId id : graph_.order()) {
      for (const Value value : graph_.node(id).inputs) {
        const Node& producer = graph_.producer_node(value);
        if (!is_drawn(producer) || key_of(producer) == key_of(graph_.node(id))) continue;
        values[{id_of(graph_.producer(value)), id_of(id)}].insert(value);
      }
    }
    for (const auto& [ends, between] : values) {
      edges_ += edge(
          ends.first, ends.second,
          between.size() == 1 ? graph_.type(*between.begin()).to_string() : fmt::format("{} values", between.size()));
    }
  }

  std::map<Key, Module> modules_;
};

}  // namespace

std::string dot_text(const Graph& graph) {
  if (graph.order().size() > kMostDrawnNodes) return ModuleDrawing(graph).text();
  return NodeDrawing(graph).text();
}

}  // namespace ridgepoint::tables
