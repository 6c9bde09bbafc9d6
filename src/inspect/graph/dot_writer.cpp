#include "inspect/graph/dot_writer.h"

#include <fmt/format.h>

#include <array>

#include "core/text/text.h"
#include "ir/scope.h"

namespace ridgepoint::views {
namespace {

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

}  // namespace

std::string dot_label(const std::vector<std::string>& lines) {
  std::string text = "\"";
  for (std::size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "" : "\\n") + escaped(lines[i]);
  return text + '"';
}

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

}  // namespace ridgepoint::views
