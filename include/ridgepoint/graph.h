// A static graph in SSA form: nodes produce values, every value has one producer and a static type.
// Nodes stand in an order that respects their inputs; that order is the schedule. The text form round-trips
// (print_graph / parse_graph), and verify() is run after every pass in tests and debug builds.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "ridgepoint/dtype.h"
#include "ridgepoint/op.h"
#include "ridgepoint/shape.h"

namespace ridgepoint {

struct Value {
  std::uint32_t id = UINT32_MAX;
  bool valid() const { return id != UINT32_MAX; }
  friend auto operator<=>(const Value&, const Value&) = default;
};

struct NodeId {
  std::uint32_t id = UINT32_MAX;
  bool valid() const { return id != UINT32_MAX; }
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

struct TensorType {
  DType dtype = DType::fp32;
  Shape shape;
  std::int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const;  // dense; throws Error on overflow
  friend bool operator==(const TensorType&, const TensorType&) = default;
  std::string to_string() const;  // fp32[B4,S256]
};

// Which part of a training step a node belongs to. Time tables, memory attribution and traces group by it.
enum class Phase : std::uint8_t { forward, loss, backward, optimizer };
std::string_view name(Phase phase);

// What an `input` node stands for. Parameters and state persist across runs and may be updated by a run;
// data is set before each run; constant is set once (masks, rotary tables).
enum class Role : std::uint8_t { parameter, state, data, constant };
std::string_view name(Role role);
// The inverse of name(); empty for an unknown one.
std::optional<Role> role_from_name(std::string_view text);

using AttributeValue = std::variant<bool, std::int64_t, double, std::vector<std::int64_t>, std::string>;

// A small sorted list of named values. get() throws Error naming the node's missing attribute.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> items);
  void set(std::string_view key, AttributeValue value);
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  template <typename T>
  const T& get(std::string_view key) const;
  template <typename T>
  T get_or(std::string_view key, T fallback) const {
    const AttributeValue* value = find(key);
    return value != nullptr && std::holds_alternative<T>(*value) ? std::get<T>(*value) : fallback;
  }
  const std::vector<std::pair<std::string, AttributeValue>>& items() const { return items_; }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  const AttributeValue* find(std::string_view key) const;
  [[noreturn]] static void fail_missing(std::string_view key);
  std::vector<std::pair<std::string, AttributeValue>> items_;
};

struct Node {
  Op op = Op::input;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  Attributes attributes;
  Phase phase = Phase::forward;
  std::optional<Op> origin;  // the composite of whose decomposition or derivative it is a piece
  std::uint32_t scope = 0;   // Graph::scope_name
  std::uint32_t source = 0;  // Graph::source_name
  bool alive = true;
};

// What an output is to the model. `loss` is what differentiation starts from; there is at most one.
enum class OutputRole : std::uint8_t { result, loss, gradient, activation };
std::string_view name(OutputRole role);
// The inverse of name(); empty for an unknown one.
std::optional<OutputRole> output_role_from_name(std::string_view text);

// What an `input` node was declared as. Throws Error for another node.
Role input_role(const Node& node);
const std::string& input_name(const Node& node);

// A named result. Outputs stay readable after a run.
struct Output {
  std::string name;
  Value value;
  OutputRole role = OutputRole::result;
  std::string of = {};  // gradient: the input that it belongs to; activation: the scope
};

// After a run the storage of `input` (a parameter or state) holds `value`. All updates of a graph are one parallel
// assignment at the end of the run: whatever reads `input`, wherever it stands, reads what it held when the run began.
struct Update {
  Value input;
  Value value;
};

class Graph {
 public:
  // Appends at the insertion point (the end unless moved). Inputs must exist. Output types are the caller's
  // word; the builders in ops.h infer them. Phase, scope and source come from the current settings.
  NodeId add_node(Op op, std::span<const Value> inputs, std::span<const TensorType> output_types,
                  Attributes attributes = {});

  const Node& node(NodeId id) const { return nodes_[id.id]; }
  Node& node(NodeId id) { return nodes_[id.id]; }
  NodeId producer(Value value) const { return values_[value.id].producer; }
  const Node& producer_node(Value value) const { return node(producer(value)); }
  const TensorType& type(Value value) const { return values_[value.id].type; }
  void set_type(Value value, TensorType type) { values_[value.id].type = std::move(type); }
  std::size_t value_count() const { return values_.size(); }
  std::size_t node_capacity() const { return nodes_.size(); }  // ids lie below this
  bool contains(Value value) const { return value.id < values_.size() && nodes_[values_[value.id].producer.id].alive; }

  // Live nodes in schedule order. The span holds until the graph next changes. Insertions and removals since the last
  // call are put in their places here, in one walk: not for two threads at once until one has asked after a change.
  std::span<const NodeId> order() const;

  // Inserts following nodes before `position` until set_insertion_at_end().
  void set_insertion_before(NodeId position);
  void set_insertion_at_end() { insertion_ = {}; }

  // Rewrites every use of values[i].first (nodes, outputs, updates) into values[i].second, in one walk.
  void replace_uses(std::span<const std::pair<Value, Value>> replacements);
  // Removes nodes; their outputs must be unused.
  void erase(std::span<const NodeId> nodes);

  // Consumers of each value, indexed by value id.
  std::vector<std::vector<NodeId>> uses() const;

  void add_output(Output output) { outputs_.push_back(std::move(output)); }
  void add_output(std::string output_name, Value value, OutputRole role = OutputRole::result, std::string of = {}) {
    add_output({std::move(output_name), value, role, std::move(of)});
  }
  void add_update(Value input, Value value) { updates_.push_back({input, value}); }
  std::span<const Output> outputs() const { return outputs_; }
  std::span<const Update> updates() const { return updates_; }
  std::optional<Value> find_output(std::string_view output_name) const;
  std::optional<Value> find_loss() const;
  void clear_outputs() { outputs_.clear(); }
  // Removes the outputs for which `is_unwanted` holds; their values stay.
  void erase_outputs(const std::function<bool(const Output&)>& is_unwanted) { std::erase_if(outputs_, is_unwanted); }
  void clear_updates() { updates_.clear(); }

  // Input nodes in order, and by the name they were made with.
  std::vector<NodeId> inputs() const;
  // Of one role.
  std::vector<NodeId> inputs(Role role) const;
  std::optional<Value> find_input(std::string_view input_name) const;

  // Settings stamped on new nodes.
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }
  void set_scope(std::string_view scope) { scope_ = intern(scope); }
  void set_source(std::string_view source) { source_ = intern(source); }
  const std::string& scope() const { return strings_[scope_]; }
  const std::string& scope_name(const Node& node) const { return strings_[node.scope]; }
  const std::string& source_name(const Node& node) const { return strings_[node.source]; }
  std::uint32_t intern(std::string_view text);

  std::string name = "graph";

 private:
  struct ValueInfo {
    TensorType type;
    NodeId producer;
  };
  // The schedule is a list, so that to insert and to remove takes the same time in a graph of any length.
  struct Links {
    NodeId previous;
    NodeId next;
  };
  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  template <typename T>
  using ByName = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

  void link(NodeId id);
  void unlink(NodeId id);

  // Deques: references to nodes and types stay valid while a rule appends nodes.
  std::deque<Node> nodes_;
  std::deque<ValueInfo> values_;
  std::vector<Links> links_;  // by node
  NodeId first_, last_;
  NodeId insertion_;  // what new nodes stand before; invalid at the end
  mutable std::vector<NodeId> order_;
  mutable bool order_is_current_ = true;
  std::vector<Output> outputs_;
  std::vector<Update> updates_;
  std::vector<std::string> strings_{""};
  ByName<std::uint32_t> string_index_;
  ByName<Value> input_index_;
  Phase phase_ = Phase::forward;
  std::uint32_t scope_ = 0;
  std::uint32_t source_ = 0;
};

// Appends `.name` to the graph's scope for its lifetime.
class ScopeGuard {
 public:
  ScopeGuard(Graph& graph, std::string_view name);
  ~ScopeGuard();
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Graph& graph_;
  std::string previous_;
};

// Throws Error naming the first broken rule: inputs before uses, as many operands and results as the op has, types as
// the op's shape rule says, outputs and updates of values that exist, updates of parameters and state alone, each by a
// value of its type and once.
void verify(const Graph& graph);
// The part of verify() that asks each node's op, whose operands must exist: the number and types of its results.
void check_types(const Graph& graph);

// One node a line:  %3:fp32[B4,S256] = add(%1, %2) {dims=[0]} @forward "layers.0.attn" "model.cpp:12" from softmax
// The attributes and what stands from `from` on, the node's origin, are left out where there are none.
std::string print_graph(const Graph& graph);
// Reads what print_graph wrote, values renumbered. Throws Error with the line and column of what it cannot read, and
// what verify() throws of the graph that it has read.
Graph parse_graph(std::string_view text);

}  // namespace ridgepoint
