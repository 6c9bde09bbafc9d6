// Makes one matrix product of several with the same left operand and weights of their own: x q^T, x k^T and x v^T
// become parts of x [q; k; v]^T. The weights are stored side by side as one parameter; programs still read and write
// each by its name. One product fills a GPU better than several small ones and reads x once. Backward then also has one
// product for the gradient of the weights and one for the gradient of x, without sums. If each product makes heads of
// attention and has a bias, the biases become one parameter too.
#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/packed_weight.h"
#include "ir/permutation.h"
#include "ir/stored_tensors.h"
#include "passes/node_rewriter.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kVectorBytes = 16;  // of the accesses of kernels that read a part

// "attn." + "q_proj+k_proj" + ".weight" for attn.q_proj.weight and attn.k_proj.weight; the name if all are equal.
std::string joined_name(const std::vector<std::string>& names) {
  const std::string& first = names.front();
  std::size_t head = first.size();
  std::size_t tail = first.size();
  for (const std::string& name : names) {
    head = std::min<std::size_t>(head, std::ranges::mismatch(first, name).in1 - first.begin());
    tail = std::min<std::size_t>(
        tail, std::mismatch(first.rbegin(), first.rend(), name.rbegin(), name.rend()).first - first.rbegin());
  }
  if (head == first.size()) return first;
  const std::size_t dot_before = head == 0 ? std::string::npos : first.rfind('.', head - 1);
  head = dot_before == std::string::npos ? 0 : dot_before + 1;
  const std::size_t dot_after = first.find('.', std::max(head, first.size() - tail));
  tail = dot_after == std::string::npos ? 0 : first.size() - dot_after;
  std::string text = first.substr(0, head);
  for (const std::string& name : names) {
    if (&name != &names.front()) text += '+';
    text += name.substr(head, name.size() - head - tail);
  }
  return text + first.substr(first.size() - tail);
}

// A parameter, perhaps behind a cast, that nothing else reads.
struct Part {
  NodeId cast = {};  // invalid where it is not cast
  NodeId parameter = {};
};

// A product x w^T.
struct Linear {
  NodeId product;
  NodeId transpose;
  Part weight = {};
};

// product + bias.
struct Bias {
  NodeId add;
  Part bias = {};
};

class ProductMerger : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    std::vector<std::vector<Linear>> groups;
    std::map<std::pair<Value, DType>, std::vector<std::size_t>> groups_of;  // by left operand
    for (const NodeId id : nodes_of(graph_)) {
      const std::optional<Linear> linear = find_linear(id);
      if (!linear) continue;
      std::vector<std::size_t>& known = groups_of[left_operand(id)];
      const auto joined = std::ranges::find_if(known, [&](std::size_t i) { return are_alike(groups[i][0], *linear); });
      if (joined != known.end()) {
        groups[*joined].push_back(*linear);
      } else {
        known.push_back(groups.size());
        groups.push_back({*linear});
      }
    }
    for (const std::vector<Linear>& group : groups) {
      if (group.size() > 1) merge(group);
    }
    return rewriter_.finish();
  }

 private:
  // The left operand before its cast, and the dtype of the cast: autocast casts an activation once for each reader.
  std::pair<Value, DType> left_operand(NodeId product) const {
    const Value operand = graph_.node(product).inputs[0];
    const Node& producer = graph_.producer_node(operand);
    return {producer.op == Op::cast ? producer.inputs[0] : operand, graph_.type(operand).dtype};
  }

  std::optional<Linear> find_linear(NodeId id) const {
    const Node& product = graph_.node(id);
    if (product.op != Op::matmul || graph_.type(product.outputs[0]).shape.rank() != 2) return std::nullopt;
    Linear linear{.product = id, .transpose = graph_.producer(product.inputs[1])};
    const Node& transpose = graph_.node(linear.transpose);
    if (transpose.op != Op::transpose || !readers_.has_only_reader(product.inputs[1], id)) return std::nullopt;
    const std::optional<Part> weight = find_part(transpose.inputs[0], linear.transpose);
    const TensorType& type = graph_.type(product.outputs[0]);
    const bool is_whole_vectors =
        type.shape[1] > 0 && type.shape[1] * static_cast<std::int64_t>(size_bytes(type.dtype)) % kVectorBytes == 0;
    if (!weight || !is_whole_vectors) return std::nullopt;
    linear.weight = *weight;
    return linear;
  }

  std::optional<Part> find_part(Value value, NodeId reader) const {
    Part part;
    if (!readers_.has_only_reader(value, reader)) return std::nullopt;
    if (const NodeId cast = graph_.producer(value); graph_.node(cast).op == Op::cast) {
      part.cast = cast;
      value = graph_.node(cast).inputs[0];
      if (!readers_.has_only_reader(value, cast)) return std::nullopt;
    }
    part.parameter = graph_.producer(value);
    return can_be_part(part.parameter) ? std::optional(part) : std::nullopt;
  }

  bool can_be_part(NodeId id) const {
    const Node& parameter = graph_.node(id);
    return parameter.op == Op::input && input_role(parameter) == Role::parameter && part_rows(parameter).empty() &&
           input_name(parameter).find(',') == std::string::npos &&
           std::ranges::find(graph_.updates(), parameter.outputs[0], &Update::input) == graph_.updates().end();
  }

  // Only if the sum is read as heads: any other reader, such as an activation, adds the bias as it reads.
  std::optional<Bias> find_bias(const Linear& linear) const {
    const Value product = graph_.node(linear.product).outputs[0];
    const std::optional<NodeId> add = readers_.only_reader(graph_, product, Op::add);
    if (!add) return std::nullopt;
    const Node& sum = graph_.node(*add);
    const Value bias = sum.inputs[sum.inputs[0] == product ? 1 : 0];
    if (!readers_.only_reader(graph_, sum.outputs[0], Op::reshape) ||
        graph_.type(sum.outputs[0]) != graph_.type(product) ||
        graph_.type(bias).shape != Shape{graph_.type(product).shape[1]})
      return std::nullopt;
    const std::optional<Part> found = find_part(bias, *add);
    return found ? std::optional(Bias{*add, *found}) : std::nullopt;
  }

  // The biases of all products, or none. A rotation that follows must become part of the product: otherwise the whole
  // sum would be kept for backward, which reads only v.
  std::vector<Bias> biases_of(const std::vector<Linear>& group) const {
    std::vector<Bias> biases;
    std::optional<Node> rotation;
    for (const Linear& linear : group) {
      const std::optional<Bias> bias = find_bias(linear);
      if (!bias) return {};
      if (!biases.empty() && !are_stored_alike(biases.front().bias, bias->bias)) return {};
      biases.push_back(*bias);
      const Node& reader = graph_.node(reader_of_heads(graph_.node(bias->add).outputs[0]));
      if (reader.op == Op::rope && !rotation) rotation = reader;
      if (reader.op != Op::rope && reader.op != Op::attention && reader.op != Op::matmul) return {};
    }
    return !rotation || adds_and_rotates(group, *rotation) ? biases : std::vector<Bias>();
  }

  // Behind the reshape to heads and transposes.
  NodeId reader_of_heads(Value sum) const {
    NodeId id = *readers_.only_reader(sum);
    while (graph_.node(id).op == Op::reshape || graph_.node(id).op == Op::transpose) {
      const std::optional<NodeId> next = readers_.only_reader(graph_.node(id).outputs[0]);
      if (!next) break;
      id = *next;
    }
    return id;
  }

  // Whether rotate_in_products would make this rotation a part of the product of the group with a bias.
  bool adds_and_rotates(const std::vector<Linear>& group, const Node& rotation) const {
    const Node& product = graph_.node(group.front().product);
    const DType dtype = graph_.type(product.outputs[0]).dtype;
    const Shape& x = graph_.type(product.inputs[0]).shape;
    const TensorType& table = graph_.type(rotation.inputs[1]);
    const std::int64_t positions = table.shape[0], head = graph_.type(rotation.outputs[0]).shape[-1];
    std::int64_t columns = 0;
    for (const Linear& linear : group) columns += graph_.type(graph_.node(linear.product).outputs[0]).shape[1];
    if (columns % head != 0 || positions == 0 || x[0] % positions != 0) return false;
    Graph probe;
    const Value left = input(probe, "x", {dtype, x}, Role::data);
    const Value weight = input(probe, "weight", {dtype, {columns, x[1]}}, Role::parameter);
    const Value bias = input(probe, "bias", {dtype, {columns}}, Role::parameter);
    const Value cosines = input(probe, "cosines", table, Role::data), sines = input(probe, "sines", table, Role::data);
    const Value right = transpose(probe, weight, {1, 0});
    const NodeId made = make_node(probe, Op::matmul, {left, right}, product.attributes);
    const Value sum = add(probe, probe.node(made).outputs[0], bias);
    const Value heads = reshape(probe, sum, {x[0] / positions, positions, columns / head, head});
    probe.add_output("rotated", rope(probe, heads, cosines, sines, 1));
    return rotate_in_products(probe, PassOptions({.level = Compile::fuse}, target_));
  }

  // Whether two products with the same left operand compute in the same way.
  bool are_alike(const Linear& a, const Linear& b) const {
    const Node& first = graph_.node(a.product);
    const Node& second = graph_.node(b.product);
    return first.attributes == second.attributes && first.phase == second.phase &&
           graph_.type(first.outputs[0]).dtype == graph_.type(second.outputs[0]).dtype &&
           are_stored_alike(a.weight, b.weight);
  }

  bool are_stored_alike(const Part& a, const Part& b) const {
    const Node& first = graph_.node(a.parameter);
    const Node& second = graph_.node(b.parameter);
    const auto same_mark = [&](std::string_view mark) {
      return first.attributes.get_or(mark, false) == second.attributes.get_or(mark, false);
    };
    const auto packed_as = [](const Node& node) { return node.attributes.get_or<std::string>(kPackedAs, ""); };
    return graph_.type(first.outputs[0]).dtype == graph_.type(second.outputs[0]).dtype && same_mark(kFrozen) &&
           same_mark(kNoDecay) && packed_as(first) == packed_as(second) && a.cast.valid() == b.cast.valid();
  }

  void merge(const std::vector<Linear>& group) {
    std::vector<std::string> scopes;
    std::vector<std::int64_t> columns;
    for (const Linear& linear : group) {
      scopes.push_back(graph_.scope_name(graph_.node(linear.product)));
      columns.push_back(graph_.type(graph_.node(linear.product).outputs[0]).shape[1]);
    }
    const Linear& first = group.front();
    const Node product = graph_.node(first.product);
    const std::vector<Bias> biases = biases_of(group);
    std::vector<NodeId> weights, added;
    for (const Linear& linear : group) weights.push_back(linear.weight.parameter);
    for (const Bias& bias : biases) added.push_back(bias.bias.parameter);
    rewriter_.insert_before(first.product, joined_name(scopes));
    Value weight = merged_parameter(weights, columns);
    if (first.weight.cast.valid()) weight = cast(graph_, weight, graph_.type(product.inputs[1]).dtype);
    const NodeId made =
        make_node(graph_, Op::matmul, {product.inputs[0], transpose(graph_, weight, {1, 0})}, product.attributes);
    Value whole = graph_.node(made).outputs[0];
    if (!biases.empty()) {
      Value bias = merged_parameter(added, columns);
      if (biases.front().bias.cast.valid()) bias = cast(graph_, bias, graph_.type(whole).dtype);
      whole = add(graph_, whole, bias);
    }
    const std::vector<Value> parts = split(graph_, whole, 1, columns);
    for (std::size_t i = 0; i < group.size(); ++i) {
      const NodeId last = biases.empty() ? group[i].product : biases[i].add;
      rewriter_.replace_by_new(graph_.node(last).outputs[0], parts[i]);
      std::vector<NodeId> replaced = {group[i].product, group[i].transpose, group[i].weight.cast,
                                      group[i].weight.parameter};
      if (!biases.empty())
        replaced.insert(replaced.end(), {biases[i].add, biases[i].bias.cast, biases[i].bias.parameter});
      for (const NodeId id : replaced) {
        if (id.valid()) rewriter_.remove(id);
      }
    }
  }

  // The rows of each part have its order.
  void lay_row_orders(const std::vector<NodeId>& parts, const std::vector<std::int64_t>& rows, Node& merged) const {
    std::vector<std::int64_t> all;
    bool is_any = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const RowOrder order = row_orders(graph_.node(parts[i]).attributes, std::span(rows).subspan(i, 1))[0];
      is_any = is_any || order != RowOrder{};
      std::ranges::copy(numbers_of(order), std::back_inserter(all));
    }
    if (is_any) merged.attributes.set(kRowOrder, all);
  }

  // Concatenates parameters along their first axis.
  Value merged_parameter(const std::vector<NodeId>& parts, const std::vector<std::int64_t>& rows) {
    std::vector<std::string> names;
    for (const NodeId part : parts) names.push_back(input_name(graph_.node(part)));
    const TensorType& type = graph_.type(graph_.node(parts.front()).outputs[0]);
    const std::int64_t all_rows = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    const Value merged =
        input(graph_, joined_name(names), {type.dtype, with_size(type.shape, 0, all_rows)}, Role::parameter);
    Node& node = graph_.node(graph_.producer(merged));
    for (const std::string_view key : {kFrozen, kNoDecay, kDeclaredDType, kPackedAs}) {
      const auto& items = graph_.node(parts.front()).attributes.items();
      const auto found = std::ranges::find(items, key, [](const auto& item) { return item.first; });
      if (found != items.end()) node.attributes.set(key, found->second);
    }
    lay_parts(node, names, rows);
    lay_row_orders(parts, rows, node);
    return merged;
  }
};

}  // namespace

bool merge_products(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && ProductMerger(graph, options.target).run();
}

}  // namespace ridgepoint
