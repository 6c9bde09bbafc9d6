// A static graph in SSA form: nodes produce values; every value has one producer and a static type. Nodes are kept in
// topological order, which is the order of execution. parse_graph() reads what print_graph() writes. verify() runs
// after every pass in tests and debug builds.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "ridgepoint/core/dtype.h"
#include "ridgepoint/core/shape.h"
#include "ridgepoint/ir/op.h"

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

// The phase of a training step that a node belongs to. Profiles, memory categories and traces group by it. recompute:
// values of the forward phase, computed again for backward (activation checkpointing).
enum class Phase : std::uint8_t { forward, loss, recompute, backward, optimizer };
inline constexpr std::size_t kPhaseCount = 5;
std::string_view name(Phase phase);
std::optional<Phase> phase_named(std::string_view text);  // the inverse; empty for another text

// The kind of an `input` node. Parameters and state persist across runs and may be updated by a run; data is written
// before each run; constant is written once (masks, rotary tables).
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
  void erase(std::string_view key);  // nothing where it is not there
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

struct FusedBody;

struct Node {
  Op op = Op::input;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  Attributes attributes;
  Phase phase = Phase::forward;
  std::optional<Op> origin;  // the composite whose decomposition or derivative created it, or that was fused into it
  std::shared_ptr<const FusedBody> body;  // of a fused node; null for every other op
  std::uint32_t scope = 0;                // Graph::scope_name
  std::uint32_t source = 0;               // Graph::source_name
  bool alive = true;
};

// The kind of an output. Differentiation starts from `loss`; a graph has at most one.
enum class OutputRole : std::uint8_t { result, loss, gradient, activation };
std::string_view name(OutputRole role);
// The inverse of name(); empty for an unknown one.
std::optional<OutputRole> output_role_from_name(std::string_view text);

// The attributes of an `input` node. Throws Error for another node.
Role input_role(const Node& node);
const std::string& input_name(const Node& node);

// A named result. Outputs stay readable after a run.
struct Output {
  std::string name;
  Value value;
  OutputRole role = OutputRole::result;
  std::string of = {};  // gradient: the name of its input; activation: its scope
};

// After a run the storage of `input` (a parameter or state) holds `value`. All updates of a graph are one parallel
// assignment at the end of the run: every node that reads `input` reads the value from before the run.
struct Update {
  Value input;
  Value value;
};

class Graph {
 public:
  // Inserts a node at the insertion point, by default the end. Inputs must exist. Output types are not checked here;
  // the builders in ops.h infer them. The node gets the graph's current phase, scope and source.
  NodeId add_node(Op op, std::span<const Value> inputs, std::span<const TensorType> output_types,
                  Attributes attributes = {});

  [[gnu::flatten]] const Node& node(NodeId id) const { return nodes_[id.id]; }
  [[gnu::flatten]] Node& node(NodeId id) { return nodes_[id.id]; }
  [[gnu::flatten]] NodeId producer(Value value) const { return values_[value.id].producer; }
  const Node& producer_node(Value value) const { return node(producer(value)); }
  [[gnu::flatten]] const TensorType& type(Value value) const { return values_[value.id].type; }
  void set_type(Value value, TensorType type) { values_[value.id].type = std::move(type); }
  std::size_t value_count() const { return values_.size(); }
  std::size_t node_capacity() const { return nodes_.size(); }  // every node id is smaller
  bool contains(Value value) const { return value.id < values_.size() && nodes_[values_[value.id].producer.id].alive; }

  // Live nodes in schedule order. The span is valid until the graph next changes. The first call after a change
  // rebuilds the list, so two threads must not make that call at once.
  std::span<const NodeId> order() const;

  // Inserts following nodes before `position`, or directly behind it, until set_insertion_at_end().
  void set_insertion_before(NodeId position);
  void set_insertion_behind(NodeId position);
  void set_insertion_at_end() { insertion_ = {}; }

  // Replaces every use of `first` (by nodes, outputs and updates) by `second`, for all pairs in one walk.
  void replace_uses(std::span<const std::pair<Value, Value>> replacements);
  // Moves a node to directly before `position`: its operands must precede that, and its readers must not.
  void move_before(NodeId node, NodeId position);
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

  // Input nodes in schedule order: all, or those of one role.
  std::vector<NodeId> inputs() const;
  std::vector<NodeId> inputs(Role role) const;
  std::optional<Value> find_input(std::string_view input_name) const;

  // The phase, scope and source that new nodes get.
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }
  void set_scope(std::string_view scope) { scope_ = intern(scope); }
  void set_source(std::string_view source) { source_ = intern(source); }
  // "src/models/transformer/transformer_graph.cpp:72": the path is from the root of this source, or from where it was
  // compiled, and an absolute path is without its folders. `file` must outlive the graph.
  void set_source(const char* file, unsigned line);
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
  // The schedule is a linked list, so that insertion and removal take constant time.
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
  NodeId insertion_;  // new nodes go before it; invalid: at the end
  mutable std::vector<NodeId> order_;
  mutable bool order_is_current_ = true;
  std::vector<Output> outputs_;
  std::vector<Update> updates_;
  std::vector<std::string> strings_{""};
  ByName<std::uint32_t> string_index_;
  ByName<Value> input_index_;
  std::map<std::pair<const char*, unsigned>, std::uint32_t> source_index_;  // by file and line
  Phase phase_ = Phase::forward;
  std::uint32_t scope_ = 0;
  std::uint32_t source_ = 0;
};

// The computation of a fused node: a graph of elementwise ops, reductions and views, with data inputs "0", "1", ... for
// the operands of the node and outputs "0", "1", ... for its results. Nodes with equal computations share a body.
struct FusedBody {
  explicit FusedBody(Graph computation);
  Graph graph;
  std::string text;  // print_graph(graph)
};

// Inserts a fused node; the body gives the types of its results.
NodeId add_fused(Graph& graph, std::span<const Value> inputs, std::shared_ptr<const FusedBody> body);

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

// Throws Error naming the first broken rule: operands precede their uses; counts of operands and results match the op;
// types match the op's shape rule; outputs and updates refer to existing values; only parameters and state are updated,
// each once, by a value of the same type.
void verify(const Graph& graph);
// The check of verify() that infers the types of each node's results. Operands must exist.
void check_types(const Graph& graph);

// One node a line:  %3:fp32[B4,S256] = add(%1, %2) {dims=[0]} @forward "layers.0.attn" "model.cpp:12" from softmax
// Attributes and the origin (`from softmax`) are omitted where there are none. The body of a fused node follows it, in
// the same form, between the lines `body "NAME"` and `end`.
std::string print_graph(const Graph& graph);
// Reads the output of print_graph() and renumbers the values. Throws Error with the line and column of a syntax error,
// and the errors of verify().
Graph parse_graph(std::string_view text);

}  // namespace ridgepoint
