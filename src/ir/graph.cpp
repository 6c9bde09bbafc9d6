#include "ridgepoint/graph.h"

#include <algorithm>
#include <array>

#include "ridgepoint/error.h"

namespace ridgepoint {

std::size_t TensorType::bytes() const {
  const auto count = static_cast<std::size_t>(shape.elements());
  if (count > (std::size_t{1} << 62) / size_bytes(dtype)) {
    throw Error("a tensor " + to_string() + " has more than 2^62 bytes", ErrorKind::usage);
  }
  return count * size_bytes(dtype);
}

std::string TensorType::to_string() const { return std::string(ridgepoint::name(dtype)) + shape.to_string(); }

std::string_view name(Phase phase) {
  constexpr std::array<std::string_view, 4> kNames = {"forward", "loss", "backward", "optimizer"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::string_view name(Role role) {
  constexpr std::array<std::string_view, 4> kNames = {"parameter", "state", "data", "constant"};
  return kNames[static_cast<std::size_t>(role)];
}

Attributes::Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> items) {
  for (const auto& [key, value] : items) set(key, value);
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
  const auto at = std::lower_bound(items_.begin(), items_.end(), key,
                                   [](const auto& item, std::string_view k) { return item.first < k; });
  return at != items_.end() && at->first == key ? &at->second : nullptr;
}

void Attributes::fail_missing(std::string_view key) {
  throw Error("a node lacks the attribute '" + std::string(key) + "' or has it with another type");
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
  nodes_.push_back(std::move(node));
  if (insertion_ == SIZE_MAX) {
    order_.push_back(id);
  } else {
    order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(insertion_++), id);
  }
  return id;
}

void Graph::set_insertion_before(NodeId position) {
  const auto at = std::find(order_.begin(), order_.end(), position);
  if (at == order_.end()) throw Error("the insertion point is not a live node of graph '" + name + "'");
  insertion_ = static_cast<std::size_t>(at - order_.begin());
}

void Graph::replace_uses(std::span<const std::pair<Value, Value>> replacements) {
  std::vector<Value> target(values_.size());
  for (const auto& [from, to] : replacements) target[from.id] = to;
  const auto resolve = [&](Value& value) {
    while (target[value.id].valid()) value = target[value.id];
  };
  for (const NodeId id : order_) {
    for (Value& value : nodes_[id.id].inputs) resolve(value);
  }
  for (Output& output : outputs_) resolve(output.value);
  for (Update& update : updates_) resolve(update.value);
}

void Graph::erase(std::span<const NodeId> nodes) {
  for (const NodeId id : nodes) nodes_[id.id].alive = false;
  std::erase_if(order_, [&](NodeId id) { return !nodes_[id.id].alive; });
  insertion_ = SIZE_MAX;
}

std::vector<std::vector<NodeId>> Graph::uses() const {
  std::vector<std::vector<NodeId>> users(values_.size());
  for (const NodeId id : order_) {
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

std::vector<NodeId> Graph::inputs() const {
  std::vector<NodeId> found;
  for (const NodeId id : order_) {
    if (nodes_[id.id].op == Op::input) found.push_back(id);
  }
  return found;
}

std::optional<Value> Graph::find_input(std::string_view input_name) const {
  for (const NodeId id : order_) {
    const Node& candidate = nodes_[id.id];
    if (candidate.op == Op::input && candidate.attributes.get<std::string>("name") == input_name)
      return candidate.outputs[0];
  }
  return std::nullopt;
}

std::uint32_t Graph::intern(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = std::lower_bound(string_index_.begin(), string_index_.end(), text,
                                   [](const auto& item, std::string_view key) { return item.first < key; });
  if (at != string_index_.end() && at->first == text) return at->second;
  const auto id = static_cast<std::uint32_t>(strings_.size());
  strings_.emplace_back(text);
  string_index_.insert(at, {std::string(text), id});
  return id;
}

ScopeGuard::ScopeGuard(Graph& graph, std::string_view scope) : graph_(graph), previous_(graph.scope()) {
  graph.set_scope(previous_.empty() ? std::string(scope) : previous_ + "." + std::string(scope));
}

ScopeGuard::~ScopeGuard() { graph_.set_scope(previous_); }

}  // namespace ridgepoint
