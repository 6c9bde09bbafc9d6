#include "ridgepoint/ir/graph.h"

#include <algorithm>

#include "core/types/enum_names.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {

std::size_t TensorType::bytes() const {
  const auto count = static_cast<std::size_t>(shape.elements());
  if (count > (std::size_t{1} << 62) / size_bytes(dtype))
    throw Error("a tensor " + to_string() + " has more than 2^62 bytes", ErrorKind::usage);
  return count * size_bytes(dtype);
}

std::string TensorType::to_string() const { return std::string(ridgepoint::name(dtype)) + shape.to_string(); }

namespace {

constexpr auto kPhaseNames = enum_names<Phase>("forward", "loss", "recompute", "backward", "optimizer");
constexpr auto kRoleNames = enum_names<Role>("parameter", "state", "data", "constant");
constexpr auto kOutputRoleNames = enum_names<OutputRole>("result", "loss", "gradient", "activation");

}  // namespace

std::string_view name(Phase phase) { return kPhaseNames[phase]; }
std::optional<Phase> phase_named(std::string_view text) { return kPhaseNames.find(text); }

std::string_view name(Role role) { return kRoleNames[role]; }
std::optional<Role> role_from_name(std::string_view text) { return kRoleNames.find(text); }

Role input_role(const Node& node) {
  const auto& text = node.attributes.get<std::string>("role");
  const std::optional<Role> role = role_from_name(text);
  if (!role) throw Error("'" + text + "' is not a role of an input");
  return *role;
}

const std::string& input_name(const Node& node) { return node.attributes.get<std::string>("name"); }

std::string_view name(OutputRole role) { return kOutputRoleNames[role]; }
std::optional<OutputRole> output_role_from_name(std::string_view text) { return kOutputRoleNames.find(text); }

Attributes::Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> items) {
  items_.reserve(items.size());
  for (const auto& [key, value] : items) set(key, value);
}

void Attributes::erase(std::string_view key) {
  std::erase_if(items_, [&](const auto& item) { return item.first == key; });
}

void Attributes::set(std::string_view key, AttributeValue value) {
  const auto at = std::lower_bound(items_.begin(), items_.end(), key,
                                   [](const auto& item, std::string_view k) { return item.first < k; });
  if (at != items_.end() && at->first == key) {
    at->second = std::move(value);
  } else {
    items_.insert(at, {std::string(key), std::move(value)});
  }
}

const AttributeValue* Attributes::find(std::string_view key) const {
  for (const auto& [name, value] : items_) {  // few, and most differ in length
    if (name == key) return &value;
  }
  return nullptr;
}

void Attributes::fail_missing(std::string_view key) {
  throw Error("a node has no attribute '" + std::string(key) + "', or it has another type");
}

template <typename T>
const T& Attributes::get(std::string_view key) const {
  const AttributeValue* value = find(key);
  if (value == nullptr || !std::holds_alternative<T>(*value)) fail_missing(key);
  return std::get<T>(*value);
}

template const bool& Attributes::get<bool>(std::string_view) const;
template const std::int64_t& Attributes::get<std::int64_t>(std::string_view) const;
template const double& Attributes::get<double>(std::string_view) const;
template const std::vector<std::int64_t>& Attributes::get<std::vector<std::int64_t>>(std::string_view) const;
template const std::string& Attributes::get<std::string>(std::string_view) const;

FusedBody::FusedBody(Graph computation) : graph(std::move(computation)) {
  for (const NodeId id : graph.order()) graph.node(id).source = 0;
  text = print_graph(graph);
}

NodeId add_fused(Graph& graph, std::span<const Value> inputs, std::shared_ptr<const FusedBody> body) {
  std::vector<TensorType> types;
  for (const Output& output : body->graph.outputs()) types.push_back(body->graph.type(output.value));
  const NodeId id = graph.add_node(Op::fused, inputs, types);
  graph.node(id).body = std::move(body);
  return id;
}

NodeId Graph::add_node(Op op, std::span<const Value> inputs, std::span<const TensorType> output_types,
                       Attributes attributes) {
  const NodeId id{static_cast<std::uint32_t>(nodes_.size())};
  Node node;
  node.op = op;
  node.inputs.assign(inputs.begin(), inputs.end());
  for (const Value value : inputs) {
    if (!contains(value))
      throw Error("an operand of '" + std::string(ridgepoint::name(op)) + "' is not a value of graph '" + name + "'");
  }
  for (const TensorType& type : output_types) {
    node.outputs.push_back(Value{static_cast<std::uint32_t>(values_.size())});
    values_.push_back({type, id});
  }
  node.attributes = std::move(attributes);
  node.phase = phase_;
  node.scope = scope_;
  node.source = source_;
  if (op == Op::input) input_index_.try_emplace(node.attributes.get_or<std::string>("name", ""), node.outputs[0]);
  nodes_.push_back(std::move(node));
  link(id);
  return id;
}

void Graph::link(NodeId id) {
  const NodeId previous = insertion_.valid() ? links_[insertion_.id].previous : last_;
  links_.push_back({previous, insertion_});
  (previous.valid() ? links_[previous.id].next : first_) = id;
  if (insertion_.valid()) {
    links_[insertion_.id].previous = id;
    order_is_current_ = false;
  } else {
    last_ = id;
    if (order_is_current_) order_.push_back(id);
  }
}

void Graph::move_before(NodeId node, NodeId position) {
  if (node == position) return;
  unlink(node);
  const NodeId previous = links_[position.id].previous;
  links_[node.id] = {previous, position};
  (previous.valid() ? links_[previous.id].next : first_) = node;
  links_[position.id].previous = node;
}

void Graph::unlink(NodeId id) {
  const auto [previous, next] = links_[id.id];
  (previous.valid() ? links_[previous.id].next : first_) = next;
  (next.valid() ? links_[next.id].previous : last_) = previous;
  order_is_current_ = false;
}

std::span<const NodeId> Graph::order() const {
  if (!order_is_current_) {
    order_.clear();
    for (NodeId id = first_; id.valid(); id = links_[id.id].next) order_.push_back(id);
    order_is_current_ = true;
  }
  return order_;
}

void Graph::set_insertion_before(NodeId position) {
  if (position.id >= nodes_.size() || !nodes_[position.id].alive)
    throw Error("the insertion point is not a live node of graph '" + name + "'");
  insertion_ = position;
}

void Graph::set_insertion_behind(NodeId position) {
  set_insertion_before(position);
  insertion_ = links_[position.id].next;
}

void Graph::replace_uses(std::span<const std::pair<Value, Value>> replacements) {
  std::vector<Value> target(values_.size());
  for (const auto& [from, to] : replacements) target[from.id] = to;
  // Path compression: each value of a chain of replacements is pointed at the end of the chain.
  const auto resolve = [&](Value& value) {
    Value end = value;
    while (target[end.id].valid()) end = target[end.id];
    for (Value at = value; at != end;) at = std::exchange(target[at.id], end);
    value = end;
  };
  for (const NodeId id : order()) {
    for (Value& value : nodes_[id.id].inputs) resolve(value);
  }
  for (Output& output : outputs_) resolve(output.value);
  for (Update& update : updates_) resolve(update.value);
}

void Graph::erase(std::span<const NodeId> nodes) {
  for (const NodeId id : nodes) {
    Node& gone = nodes_[id.id];
    if (!gone.alive) continue;
    gone.alive = false;
    unlink(id);
    if (gone.op != Op::input) continue;
    const auto named = input_index_.find(gone.attributes.get_or<std::string>("name", ""));
    if (named != input_index_.end() && named->second == gone.outputs[0]) input_index_.erase(named);
  }
  set_insertion_at_end();
}

std::vector<std::vector<NodeId>> Graph::uses() const {
  std::vector<std::vector<NodeId>> users(values_.size());
  for (const NodeId id : order()) {
    for (const Value value : nodes_[id.id].inputs) {
      auto& list = users[value.id];
      if (list.empty() || list.back() != id) list.push_back(id);
    }
  }
  return users;
}

std::optional<Value> Graph::find_output(std::string_view output_name) const {
  for (const Output& output : outputs_) {
    if (output.name == output_name) return output.value;
  }
  return std::nullopt;
}

std::optional<Value> Graph::find_loss() const {
  for (const Output& output : outputs_) {
    if (output.role == OutputRole::loss) return output.value;
  }
  return std::nullopt;
}

std::vector<NodeId> Graph::inputs() const {
  std::vector<NodeId> found;
  for (const NodeId id : order()) {
    if (nodes_[id.id].op == Op::input) found.push_back(id);
  }
  return found;
}

std::vector<NodeId> Graph::inputs(Role role) const {
  std::vector<NodeId> found = inputs();
  std::erase_if(found, [&](NodeId id) { return input_role(node(id)) != role; });
  return found;
}

std::optional<Value> Graph::find_input(std::string_view input_name) const {
  const auto found = input_index_.find(input_name);
  return found == input_index_.end() ? std::nullopt : std::optional(found->second);
}

std::uint32_t Graph::intern(std::string_view text) {
  if (text.empty()) return 0;
  const auto found = string_index_.find(text);
  if (found != string_index_.end()) return found->second;
  const auto id = static_cast<std::uint32_t>(strings_.size());
  strings_.emplace_back(text);
  string_index_.emplace(text, id);
  return id;
}

void Graph::set_source(const char* file, unsigned line) {
  const auto [known, is_new] = source_index_.try_emplace({file, line});
  if (is_new) {
    std::string_view path = file;  // of ours, as the build names it: from the root
    if (path.starts_with('/')) path.remove_prefix(path.rfind('/') + 1);
    known->second = intern(std::string(path) + ":" + std::to_string(line));
  }
  source_ = known->second;
}

ScopeGuard::ScopeGuard(Graph& graph, std::string_view scope) : graph_(graph), previous_(graph.scope()) {
  graph.set_scope(previous_.empty() ? std::string(scope) : previous_ + "." + std::string(scope));
}

ScopeGuard::~ScopeGuard() { graph_.set_scope(previous_); }

}  // namespace ridgepoint
