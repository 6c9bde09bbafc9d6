// Makes one matrix product of several with the same left operand and weights of their own: x q^T, x k^T and x v^T
// become parts of x [q; k; v]^T. The weights are stored side by side as one parameter; programs still read and write
// each by its name. One product fills a GPU better than several small ones and reads x once, and differentiation then
// finds one product for the gradient of the weights and one, without sums, for that of x.
#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/packed_weight.h"
#include "ir/permutation.h"
#include "ir/stored_tensors.h"
#include "passes/node_rewriter.h"
#include "ridgepoint/ops.h"

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

// A product x w^T, or x cast(w)^T, whose weight nothing else reads.
struct Linear {
  NodeId product;
  NodeId transpose;
  NodeId cast = {};  // invalid where the weight is not cast
  NodeId weight = {};
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
  // The left operand before it was cast, because autocast casts an activation for each reader, and the type it has.
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
    Value weight = transpose.inputs[0];
    if (!readers_.has_only_reader(weight, linear.transpose)) return std::nullopt;
    if (const NodeId cast = graph_.producer(weight); graph_.node(cast).op == Op::cast) {
      linear.cast = cast;
      weight = graph_.node(cast).inputs[0];
      if (!readers_.has_only_reader(weight, cast)) return std::nullopt;
    }
    linear.weight = graph_.producer(weight);
    return can_be_part(linear) ? std::optional(linear) : std::nullopt;
  }

  bool can_be_part(const Linear& linear) const {
    const Node& weight = graph_.node(linear.weight);
    if (weight.op != Op::input || input_role(weight) != Role::parameter || !part_rows(weight).empty()) return false;
    if (input_name(weight).find(',') != std::string::npos) return false;
    if (std::ranges::find(graph_.updates(), weight.outputs[0], &Update::input) != graph_.updates().end()) return false;
    const TensorType& type = graph_.type(graph_.node(linear.product).outputs[0]);
    return type.shape[1] > 0 && type.shape[1] * static_cast<std::int64_t>(size_bytes(type.dtype)) % kVectorBytes == 0;
  }

  // Whether two products with the same left operand compute in the same way.
  bool are_alike(const Linear& a, const Linear& b) const {
    const Node& first = graph_.node(a.product);
    const Node& second = graph_.node(b.product);
    const auto dtype = [&](NodeId node) { return graph_.type(graph_.node(node).outputs[0]).dtype; };
    return first.attributes == second.attributes && first.phase == second.phase &&
           dtype(a.product) == dtype(b.product) && dtype(a.weight) == dtype(b.weight) &&
           has(a, kFrozen) == has(b, kFrozen) && has(a, kNoDecay) == has(b, kNoDecay) && packed_as(a) == packed_as(b) &&
           a.cast.valid() == b.cast.valid();
  }

  std::string packed_as(const Linear& linear) const {
    return graph_.node(linear.weight).attributes.get_or<std::string>(kPackedAs, "");
  }

  bool has(const Linear& linear, std::string_view mark) const {
    return graph_.node(linear.weight).attributes.get_or(mark, false);
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
    rewriter_.insert_before(first.product, joined_name(scopes));
    Value weight = merged_weight(group, columns);
    if (first.cast.valid()) weight = cast(graph_, weight, graph_.type(product.inputs[1]).dtype);
    const NodeId made =
        make_node(graph_, Op::matmul, {product.inputs[0], transpose(graph_, weight, {1, 0})}, product.attributes);
    const std::vector<Value> parts = split(graph_, graph_.node(made).outputs[0], 1, columns);
    for (std::size_t i = 0; i < group.size(); ++i) {
      const Value result = graph_.node(group[i].product).outputs[0];
      rewriter_.replace_by_new(result, parts[i]);
      for (const NodeId id : {group[i].product, group[i].transpose, group[i].cast, group[i].weight}) {
        if (id.valid()) rewriter_.remove(id);
      }
    }
  }

  // The rows of each part have its order.
  void lay_row_orders(const std::vector<Linear>& group, const std::vector<std::int64_t>& rows, Node& merged) const {
    std::vector<std::int64_t> all;
    bool is_any = false;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const RowOrder order = row_orders(graph_.node(group[i].weight).attributes, std::span(rows).subspan(i, 1))[0];
      is_any = is_any || order != RowOrder{};
      std::ranges::copy(numbers_of(order), std::back_inserter(all));
    }
    if (is_any) merged.attributes.set(kRowOrder, all);
  }

  Value merged_weight(const std::vector<Linear>& group, const std::vector<std::int64_t>& rows) {
    std::vector<std::string> names;
    for (const Linear& linear : group) names.push_back(input_name(graph_.node(linear.weight)));
    const TensorType& type = graph_.type(graph_.node(group.front().weight).outputs[0]);
    const Shape shape{std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), type.shape.dim(1)};
    const Value merged = input(graph_, joined_name(names), {type.dtype, shape}, Role::parameter);
    Node& node = graph_.node(graph_.producer(merged));
    for (const std::string_view key : {kFrozen, kNoDecay, kDeclaredDType, kPackedAs}) {
      const auto& items = graph_.node(group.front().weight).attributes.items();
      const auto found = std::ranges::find(items, key, [](const auto& item) { return item.first; });
      if (found != items.end()) node.attributes.set(key, found->second);
    }
    lay_parts(node, names, rows);
    lay_row_orders(group, rows, node);
    return merged;
  }
};

}  // namespace

bool merge_products(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && ProductMerger(graph, options.target).run();
}

}  // namespace ridgepoint
