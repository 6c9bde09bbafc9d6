// The text form of a graph. parse.cpp reads it back.
#include <fmt/format.h>

#include <cmath>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {
namespace {

void print_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  out += '"';
}

// The shortest text that reads back as the same double. It has a point, an exponent or letters, unlike an integer.
void print_double(std::string& out, double value) {
  const std::string text = fmt::format("{}", value);
  out += text;
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) out += ".0";
}

struct AttributePrinter {
  std::string& out;
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(std::int64_t value) const { out += std::to_string(value); }
  void operator()(double value) const { print_double(out, value); }
  void operator()(const std::vector<std::int64_t>& values) const { out += fmt::format("[{}]", fmt::join(values, ",")); }
  void operator()(const std::string& value) const { print_string(out, value); }
};

void print_contents(std::string& out, const Graph& graph);

void print_node(std::string& out, const Graph& graph, const Node& node) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    out += fmt::format("{}%{}:{}", i == 0 ? "" : ", ", node.outputs[i].id, graph.type(node.outputs[i]).to_string());
  out += fmt::format(" = {}(", name(node.op));
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    out += fmt::format("{}%{}", i == 0 ? "" : ", ", node.inputs[i].id);
  out += ')';
  if (!node.attributes.items().empty()) {
    out += " {";
    bool first = true;
    for (const auto& [key, value] : node.attributes.items()) {
      out += fmt::format("{}{}=", first ? "" : ", ", key);
      std::visit(AttributePrinter{out}, value);
      first = false;
    }
    out += '}';
  }
  out += fmt::format(" @{} ", name(node.phase));
  print_string(out, graph.scope_name(node));
  out += ' ';
  print_string(out, graph.source_name(node));
  if (node.origin) out += fmt::format(" from {}", name(*node.origin));
  out += '\n';
  if (node.body == nullptr) return;
  out += "body ";
  print_contents(out, node.body->graph);
  out += "end\n";
}

void print_contents(std::string& out, const Graph& graph) {
  print_string(out, graph.name);
  out += '\n';
  for (const NodeId id : graph.order()) print_node(out, graph, graph.node(id));
  for (const Output& output : graph.outputs()) {
    out += "output ";
    print_string(out, output.name);
    out += fmt::format(" %{}", output.value.id);
    if (output.role != OutputRole::result) out += fmt::format(" {}", name(output.role));
    if (!output.of.empty()) {
      out += ' ';
      print_string(out, output.of);
    }
    out += '\n';
  }
  for (const Update& update : graph.updates()) out += fmt::format("update %{} %{}\n", update.input.id, update.value.id);
}

}  // namespace

std::string print_graph(const Graph& graph) {
  std::string out = "graph ";
  print_contents(out, graph);
  return out;
}

}  // namespace ridgepoint
