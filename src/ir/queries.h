// Queries on a graph that several folders use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// A list of nodes for each value of a graph.
class NodesByValue {
 public:
  // visit(add) calls add(value, node) for each node of each list, in order.
  template <typename Visit>
  NodesByValue(std::size_t values, const Visit& visit) : begin_(values + 2) {
    std::vector<std::pair<Value, NodeId>> added;
    added.reserve(2 * values);
    visit([&](Value value, NodeId node) {
      ++begin_[value.id + 2];
      added.emplace_back(value, node);
    });
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    nodes_.resize(added.size());
    for (const auto& [value, node] : added) nodes_[begin_[value.id + 1]++] = node;  // to the begin of the next list
  }
  std::span<const NodeId> of(Value value) const {
    return std::span(nodes_).subspan(begin_[value.id], begin_[value.id + 1] - begin_[value.id]);
  }

 private:
  std::vector<std::uint32_t> begin_;
  std::vector<NodeId> nodes_;
};

// The readers of each value, as of the construction of this object.
class Readers {
 public:
  explicit Readers(const Graph& graph);
  std::span<const NodeId> of(Value value) const { return readers_.of(value); }
  // Whether the value is an output or updates an input.
  bool is_result(Value value) const { return is_result_[value.id]; }
  // The node that alone reads the value, which is no result; empty where there are several or none.
  std::optional<NodeId> only_reader(Value value) const;
  // The same, where it is a node of that op.
  std::optional<NodeId> only_reader(const Graph& graph, Value value, Op op) const;
  bool has_only_reader(Value value, NodeId reader) const { return only_reader(value) == reader; }
  // Whether one operand of one node, and no output or update, is the value.
  bool is_read_once(const Graph& graph, Value value) const;

 private:
  NodesByValue readers_;
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

// By value id: whether the value is data or depends on data.
std::vector<bool> values_of_data(const Graph& graph);

// The bf16 or fp16 value that `value` is a cast of, into the dtype in which that accumulates: both represent the same
// numbers. Empty where `value` is anything else.
std::optional<Value> low_source(const Graph& graph, Value value);

// Whether a node of the op may have so many operands: those of op_list.def, or also its optional ones, all of them.
bool takes_operands(Op op, std::size_t count);

// The part of verify() that costs next to nothing: every node has as many operands and results as its op, and every
// operand, output and update is a value that an earlier node makes. Whoever plans or walks a graph relies on no more.
// Throws Error as verify() does.
void verify_operands(const Graph& graph);

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
