#include "ops/node_key.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kUsualKeyBytes = 256;  // with the types of operands

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
    append_bits(key, bytes);
    key.append(static_cast<const char*>(data), bytes);
  }
};

}  // namespace

void append_attributes(std::string& key, const Attributes& attributes) {
  append_bits(key, attributes.items().size());
  for (const auto& [attribute, value] : attributes.items()) {
    ((key += ';') += attribute) += '=';
    std::visit(KeyWriter{key}, value);
  }
}

void append_type(std::string& key, const TensorType& type) {
  append_bits(key, type.dtype);
  append_bits(key, type.shape.rank());
  for (const Dim& dim : type.shape.dims()) append_bits(key, dim.size);
}

void append_labelled_type(std::string& key, const TensorType& type) {
  append_type(key, type);
  for (const Dim& dim : type.shape.dims()) key += dim.label;
}

std::string operation_key(const Node& node) {
  std::string key;
  key.reserve(kUsualKeyBytes);
  append_bits(key, node.op);
  append_attributes(key, node.attributes);
  if (node.body != nullptr) key += node.body->text;
  return key;
}

std::string typed_key(const Graph& graph, const Node& node) {
  std::string key = operation_key(node);
  for (const Value value : node.inputs) {
    append_type(key, graph.type(value));
    const Node& producer = graph.producer_node(value);
    if (producer.op == Op::constant) key += operation_key(producer);
  }
  return key;
}

}  // namespace ridgepoint
