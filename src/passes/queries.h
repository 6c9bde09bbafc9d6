// Questions that several passes ask of a graph.
#pragma once

#include <optional>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// Who reads each value of a graph as it was when this was made.
class Readers {
 public:
  explicit Readers(const Graph& graph);
  const std::vector<NodeId>& of(Value value) const { return uses_[value.id]; }
  // Whether it leaves the graph, as an output or an update.
  bool is_result(Value value) const { return is_result_[value.id]; }
  bool is_read_by_alone(Value value, NodeId reader) const;

 private:
  std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> is_result_;
};

// The constant that every element of the value equals, seen through views.
std::optional<double> constant_behind(const Graph& graph, Value value);

}  // namespace ridgepoint
