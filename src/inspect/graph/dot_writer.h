// Text in the language of Graphviz: quoted names, and boxes within nested clusters.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint::views {

// The lines of a label as one quoted string. Quotation marks, backslashes and line breaks are escaped.
std::string dot_label(const std::vector<std::string>& lines);

// The fill colour of a phase, #rrggbb.
std::string_view dot_colour(Phase phase);

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

}  // namespace ridgepoint::views
