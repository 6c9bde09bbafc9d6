#include "ops/node_key.h"

namespace ridgepoint {
namespace {

// Writes each value with a tag and its length, so that different lists of values have different keys.
struct KeyWriter {
  std::string& key;
  void operator()(bool value) const { key += value ? 't' : 'f'; }
  void operator()(std::int64_t value) const { raw('i', &value, sizeof value); }
  void operator()(double value) const { raw('d', &value, sizeof value); }
  void operator()(const std::vector<std::int64_t>& values) const {
    raw('l', values.data(), values.size() * sizeof(std::int64_t));
  }
  void operator()(const std::string& value) const { raw('s', value.data(), value.size()); }
  void raw(char tag, const void* data, std::size_t bytes) const {
    key += tag;
    key += std::to_string(bytes) + ':';
    key.append(static_cast<const char*>(data), bytes);
  }
};

}  // namespace

void append_bits(std::string& key, double value) { KeyWriter{key}(value); }

void append_attributes(std::string& key, const Attributes& attributes) {
  for (const auto& [attribute, value] : attributes.items()) {
    ((key += ';') += attribute) += '=';
    std::visit(KeyWriter{key}, value);
  }
}

std::string operation_key(const Node& node) {
  std::string key(name(node.op));
  append_attributes(key, node.attributes);
  if (node.body != nullptr) key += node.body->text;
  return key;
}

std::string typed_key(const Graph& graph, const Node& node) {
  std::string key = operation_key(node);
  for (const Value value : node.inputs) {
    const TensorType& type = graph.type(value);
    key += '|';
    key += name(type.dtype);
    for (const Dim& dim : type.shape.dims()) key += ',' + std::to_string(dim.size);
    const Node& producer = graph.producer_node(value);
    if (producer.op == Op::constant) key += operation_key(producer);
  }
  return key;
}

}  // namespace ridgepoint
