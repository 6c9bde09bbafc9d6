// What those who rewrite a graph share.
#pragma once

#include <string>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Puts back the phase and the scope that new nodes of a graph get.
class GraphSettings {
 public:
  explicit GraphSettings(Graph& graph) : graph_(graph), phase_(graph.phase()), scope_(graph.scope()) {}
  ~GraphSettings();
  GraphSettings(const GraphSettings&) = delete;
  GraphSettings& operator=(const GraphSettings&) = delete;

 private:
  Graph& graph_;
  Phase phase_;
  std::string scope_;
};

// Notes of the nodes from `first` on what composite they are a piece of, where they are a piece of none yet.
void set_origin(Graph& graph, NodeId first, Op composite);

}  // namespace ridgepoint
