// Transfers: copies between the memory of the host and that of the device, of any number of tensors. They run beside
// the launches that follow.
//
//   copy_from_host  x -> x, of tensors that lie in the memory of the host
//   copy_to_host    t, x -> x, the tensors t of the host first, then as many of the device with the same types; the
//                   results lie where the t did, which they overwrite
#include "ops/shape_rules.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_copy_from_host(const ShapeContext& context) {
  require(!context.inputs.empty(), "there must be an operand");
  return {context.inputs.begin(), context.inputs.end()};
}

std::vector<TensorType> infer_copy_to_host(const ShapeContext& context) {
  const std::size_t count = context.inputs.size() / 2;
  require(count > 0 && 2 * count == context.inputs.size(), "there must be a tensor on the host for each value");
  for (std::size_t i = 0; i < count; ++i)
    require(context.inputs[i] == context.inputs[count + i], "a value must have the type of its tensor on the host");
  return {context.inputs.begin(), context.inputs.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::vector<std::pair<int, int>> each_result_over_its_tensor(const Node& node) {
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) pairs.emplace_back(i, i);
  return pairs;
}

// Read in one memory and written in the other.
std::int64_t moved_bytes(const Graph& graph, const Node& node) {
  std::int64_t bytes = 0;
  for (const Value value : node.outputs) bytes += 2 * static_cast<std::int64_t>(graph.type(value).bytes());
  return bytes;
}

}  // namespace

extern const OpRule rule_copy_from_host{.infer = infer_copy_from_host, .bytes = moved_bytes};
extern const OpRule rule_copy_to_host{
    .infer = infer_copy_to_host, .bytes = moved_bytes, .donations = each_result_over_its_tensor};

std::vector<Value> copy_from_host(Graph& graph, std::vector<Value> on_host, const Source& source) {
  return graph.node(make_node(graph, Op::copy_from_host, std::move(on_host), {}, source)).outputs;
}

std::vector<Value> copy_to_host(Graph& graph, std::vector<Value> on_host, const std::vector<Value>& values,
                                const Source& source) {
  on_host.insert(on_host.end(), values.begin(), values.end());
  return graph.node(make_node(graph, Op::copy_to_host, std::move(on_host), {}, source)).outputs;
}

}  // namespace ridgepoint
