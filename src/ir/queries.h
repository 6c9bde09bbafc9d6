// Queries on a graph that several folders use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// The readers of each value, as of the construction of this object.
class Readers {
 public:
  explicit Readers(const Graph& graph);
  const std::vector<NodeId>& of(Value value) const { return uses_[value.id]; }
  // Whether the value is an output or updates an input.
  bool is_result(Value value) const { return is_result_[value.id]; }
  bool has_only_reader(Value value, NodeId reader) const;
  // Whether one operand of one node, and no output or update, is the value.
  bool is_read_once(const Graph& graph, Value value) const;

 private:
  std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> is_result_;
};

// By node id: the position in the schedule; SIZE_MAX where the node is not live.
std::vector<std::size_t> positions(const Graph& graph);

// By value id: whether the value is an output or updates an input.
std::vector<bool> results_of(const Graph& graph);

// Whether the graph has an op of that class; bodies of its nodes are not searched.
bool has_op_of(const Graph& graph, OpClass wanted);

// The value whose storage `value` reads through views; `value` itself where it is not a view.
Value view_root(const Graph& graph, Value value);

// The bf16 or fp16 value that `value` is a cast of, into the dtype in which that accumulates: both represent the same
// numbers. Empty where `value` is anything else.
std::optional<Value> low_source(const Graph& graph, Value value);

// The value of a constant node. The attribute `value` is a double or a 64-bit integer; in the text form only a double
// has a point. The shape rule ensures that a constant of an integer dtype is an integer in the range of the dtype.
double constant_value(const Node& node);
// Exact, for an integer dtype.
std::int64_t constant_integer(const Node& node);
// The integer attribute `value`; empty where it is a double.
std::optional<std::int64_t> integer_value(const Attributes& attributes);

// The constant that every element of `value` equals, where `value` is a constant or a view of one.
std::optional<double> constant_behind(const Graph& graph, Value value);

}  // namespace ridgepoint
