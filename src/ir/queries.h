// Questions that several folders ask of a graph.
#pragma once

#include <cstdint>
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

// By value: whether an output or an update holds it.
std::vector<bool> results_of(const Graph& graph);

// The value that `value` re-reads, itself where it is no view.
Value view_root(const Graph& graph, Value value);

// What a constant node holds. Its attribute `value` is a double or an integer of 64 bits; the text form tells them
// apart by the point. The constant of an integer dtype is a whole number that the dtype holds (its shape rule sees to
// that).
double constant_value(const Node& node);
// Of an integer dtype: exact.
std::int64_t constant_integer(const Node& node);
// The integer among a constant's attributes; empty where they hold a double.
std::optional<std::int64_t> whole_value(const Attributes& attributes);

// The constant that every element of the value equals, seen through views.
std::optional<double> constant_behind(const Graph& graph, Value value);

}  // namespace ridgepoint
