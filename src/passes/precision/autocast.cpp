#include "passes/precision/autocast.h"

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <utility>

#include "core/warning.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/stored_tensors.h"
#include "ops/float8_product.h"
#include "ops/rule.h"
#include "passes/pass.h"
#include "passes/precision/head_products.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// cuBLASLt's 8-bit products need sizes that are multiples of 16. Narrower layers, such as adapters, would gain nothing.
constexpr std::int64_t kFloat8Multiple = 16;
constexpr std::int64_t kLeastFloat8Width = 128;

// Or a view of one.
bool is_parameter(const Graph& graph, Value value) {
  const Node& root = graph.producer_node(view_root(graph, value));
  return root.op == Op::input && input_role(root) == Role::parameter;
}

// Finds the products that --dtype fp8 computes with 8-bit codes, in a forward graph as it is when this object is made.
class Float8Layers {
 public:
  explicit Float8Layers(const Graph& graph) : graph_(graph), heads_(graph) {}

  // Whether the node is the product of a linear layer in 8 bits: a product of two matrices, one of them a parameter,
  // with sizes that the kernels of forward and backward accept. The head, whose result the loss reads, is none.
  bool contains(NodeId product) const {
    const Node& node = graph_.node(product);
    if (node.op != Op::matmul || graph_.type(node.outputs[0]).shape.rank() != 2) return false;
    const Shape& left = graph_.type(node.inputs[0]).shape;
    const Shape& right = graph_.type(node.inputs[1]).shape;
    const bool has_weight = std::ranges::any_of(node.inputs, [&](Value value) { return is_parameter(graph_, value); });
    const auto is_wide = [](std::int64_t size) { return size >= kLeastFloat8Width && size % kFloat8Multiple == 0; };
    return has_weight && left[0] > 0 && left[0] % kFloat8Multiple == 0 && is_wide(left[1]) && is_wide(right[1]) &&
           !heads_.contains(node.outputs[0]);
  }

 private:
  const Graph& graph_;
  HeadProducts heads_;
};

class Autocaster {
 public:
  Autocaster(Graph& graph, const AutocastOptions& options)
      : graph_(graph),
        rewriter_(graph),
        options_(options),
        low_(matmul_dtype(options.precision)),
        is_update_(graph.value_count()) {
    for (const Update& update : graph.updates()) is_update_[update.value.id] = true;
    if (options.precision == Precision::fp8) float8_layers_.emplace(graph);
  }

  bool run() {
    for (const NodeId id : nodes_of(graph_)) visit(id);
    rewriter_.finish();
    if (float8_layers_ && !has_float8_)
      warn_once("fp8",
                "no linear layer computes in fp8, all in bf16: widths must be 128 or more, and they and the number "
                "of tokens multiples of 16");
    return changed_;
  }

 private:
  void visit(NodeId id) {
    Node& node = graph_.node(id);
    record_constant(node);
    if (options_.low_parameters && node.op == Op::input && input_role(node) == Role::parameter) store_low(node);
    rewriter_.insert_before(id);
    std::vector<Value> operands;
    operands.reserve(node.inputs.size());
    for (const Value value : node.inputs) operands.push_back(replacement_of(value));
    const std::optional<DType> dtype = adds_bias(node, operands) ? low_ : compute_dtype(node.op, operands);
    if (dtype) {
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!is_floating(graph_.type(operands[i]).dtype)) continue;
        const bool is_wide = i >= rule(node.op).first_accumulator_operand;
        operands[i] = cast_to(operands[i], is_wide ? accumulator(*dtype) : *dtype);
      }
    }
    if (options_.precision == Precision::tf32 && traits(node.op).autocast == AutocastRule::low)
      set_tf32(node, operands);
    if (float8_layers_ && float8_layers_->contains(id) && graph_.type(operands[0]).dtype == low_) {
      set_float8_operands(node.attributes, {});
      has_float8_ = changed_ = true;
    }
    const bool has_new_types = std::ranges::any_of(operands, [&](Value value) { return stored_low_.contains(value); });
    if (operands != node.inputs || has_new_types) rebuild(id, operands);
  }

  void store_low(Node& parameter) {
    const Value value = parameter.outputs[0];
    if (graph_.type(value).dtype != DType::fp32) return;
    parameter.attributes.set(kDeclaredDType, std::string(name(DType::fp32)));
    graph_.set_type(value, {low_, graph_.type(value).shape});
    stored_low_.insert(value);
    changed_ = true;
  }

  void set_tf32(Node& product, const std::vector<Value>& operands) {
    if (graph_.type(operands[0]).dtype != DType::fp32) return;
    product.attributes.set("compute", std::string("tf32"));
    changed_ = true;
  }

  // Whether the node adds a bias to a product of the same scope: both are one linear layer, and the sum has the
  // product's type.
  bool adds_bias(const Node& node, const std::vector<Value>& operands) const {
    if (node.op != Op::add || options_.precision == Precision::tf32) return false;
    const auto is_bias = [&](Value value) {
      return graph_.type(value).shape.rank() == 1 && is_parameter(graph_, value);
    };
    const auto is_product = [&](Value value) {
      return is_low_product(value) && graph_.scope_name(graph_.producer_node(value)) == graph_.scope_name(node);
    };
    return (is_product(operands[0]) && is_bias(operands[1])) || (is_product(operands[1]) && is_bias(operands[0]));
  }

  // A product, or its sum with that of an adapter.
  bool is_low_product(Value value) const {
    const Node& node = graph_.producer_node(value);
    return graph_.type(value).dtype == low_ &&
           (node.op == Op::matmul || (node.op == Op::add && is_low_product(node.inputs[0])));
  }

  // Nullopt: operands are not cast.
  std::optional<DType> compute_dtype(Op op, const std::vector<Value>& operands) const {
    const std::optional<DType> common = widest_dtype(operands);
    if (!common || *common == DType::fp64) return common;
    const bool forced = std::find(options_.force_low.begin(), options_.force_low.end(), op) != options_.force_low.end();
    switch (forced ? AutocastRule::low : traits(op).autocast) {
      case AutocastRule::low: return low_;
      case AutocastRule::full: return DType::fp32;
      case AutocastRule::widest: return common;
      case AutocastRule::own:
        if (op == Op::concat) return common;  // what stands side by side has one type, as for torch.cat()
        break;
    }
    return std::nullopt;
  }

  // Of the floating operands that are not constants.
  std::optional<DType> widest_dtype(const std::vector<Value>& operands) const {
    std::optional<DType> found;
    for (const Value value : operands) {
      const DType dtype = graph_.type(value).dtype;
      if (!is_floating(dtype) || is_constant(value)) continue;
      found = found ? widest(*found, dtype) : dtype;
    }
    return found;
  }

  // True for constants and for views of constants.
  bool is_constant(Value value) const { return value.id < is_constant_.size() && is_constant_[value.id]; }

  void record_constant(const Node& node) {
    const bool follows = op_class(node.op) == OpClass::view && is_constant(node.inputs[0]);
    if (node.op != Op::constant && !follows) return;
    if (is_constant_.size() < graph_.value_count()) is_constant_.resize(graph_.value_count());
    is_constant_[node.outputs[0].id] = true;
  }

  // Casts the operand of a chain of views and rebuilds the views, so that a weight and its transpose share one cast.
  // Each part of a split is cast by itself, because the other parts may keep their type.
  Value cast_to(Value value, DType dtype) {
    const auto shares_cast = [&](const Node& node) {
      return op_class(node.op) == OpClass::view && node.op != Op::split;
    };
    std::vector<Value> views;  // outermost first
    while (!is_known_as(value, dtype) && shares_cast(graph_.producer_node(value))) {
      views.push_back(value);
      value = replacement_of(graph_.producer_node(value).inputs[0]);
    }
    value = cast_stored(value, dtype);
    for (const Value view : std::views::reverse(views)) {
      value = rewriter_.rebuild_view(view, value);
      record_constant(graph_.producer_node(value));
      casts_[{view, dtype}] = value;
    }
    return value;
  }

  bool is_known_as(Value value, DType dtype) const {
    return graph_.type(value).dtype == dtype || casts_.contains({value, dtype});
  }

  // Casts a value that is not a view, or returns a cast that exists already.
  Value cast_stored(Value value, DType dtype) {
    if (graph_.type(value).dtype == dtype) return value;
    if (const auto known = casts_.find({value, dtype}); known != casts_.end()) return known->second;
    const Node& producer = graph_.producer_node(value);
    if (producer.op == Op::constant) {
      const Value cast_constant = constant(graph_, constant_value(producer), dtype);
      record_constant(graph_.producer_node(cast_constant));
      return cast_constant;
    }
    if (producer.op == Op::cast && is_widened_from(producer, dtype)) return producer.inputs[0];
    const Value made = rounded(value, dtype);
    if (producer.op == Op::input) casts_[{value, dtype}] = made;
    return made;
  }

  // A value that was widened from `dtype` needs no second rounding. A narrowed value was rounded, so its cast stays.
  bool is_widened_from(const Node& cast_node, DType dtype) const {
    const DType before = graph_.type(cast_node.inputs[0]).dtype;
    const DType after = graph_.type(cast_node.outputs[0]).dtype;
    return before == dtype && after != before && holds(after, before);
  }

  Value rounded(Value value, DType dtype) {
    return with_shape(cast(graph_, value, dtype), dtype, graph_.type(value).shape);
  }

  Value with_shape(Value value, DType dtype, const Shape& shape) {
    graph_.set_type(value, {dtype, shape});
    return value;
  }

  void rebuild(NodeId id, std::vector<Value> operands) {
    changed_ = true;
    const Node& node = graph_.node(id);
    std::vector<Value> made = graph_.node(make_node(graph_, node.op, std::move(operands), node.attributes)).outputs;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorType& before = graph_.type(node.outputs[i]);
      with_shape(made[i], graph_.type(made[i]).dtype, before.shape);
      if (is_update_[node.outputs[i].id])
        made[i] = cast_to(made[i], before.dtype);  // the input's storage has the old type
      replacements_[node.outputs[i]] = made[i];
    }
    rewriter_.replace(id, made);
  }

  Value replacement_of(Value value) const {
    const auto found = replacements_.find(value);
    return found == replacements_.end() ? value : found->second;
  }

  Graph& graph_;
  Rewriter rewriter_;
  const AutocastOptions& options_;
  DType low_;
  std::optional<Float8Layers> float8_layers_;       // of the graph before any cast; empty unless fp8
  std::vector<bool> is_update_;                     // by value
  std::map<Value, Value> replacements_;             // replacements of the original values
  std::map<std::pair<Value, DType>, Value> casts_;  // of inputs and of views
  std::vector<bool> is_constant_;                   // by value
  std::set<Value> stored_low_;                      // parameters
  bool changed_ = false;
  bool has_float8_ = false;
};

}  // namespace

bool autocast(Graph& graph, const PassOptions& options) {
  const bool low_parameters = !options.master_weights && options.precision != Precision::fp32;
  return autocast(graph, AutocastOptions{options.precision, options.force_low, low_parameters});
}

bool autocast(Graph& graph, const AutocastOptions& options) {
  if (options.precision == Precision::fp32) return false;
  return Autocaster(graph, options).run();
}

void widen_to_fp64(Graph& graph) {
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.attributes.get_or<std::string>("dtype", "") == name(DType::fp32))
      node.attributes.set("dtype", std::string(name(DType::fp64)));
    for (const Value value : node.outputs) {
      const TensorType& type = graph.type(value);
      if (!is_floating(type.dtype)) continue;
      if (is_low(type.dtype)) {
        throw Error("graph '" + graph.name + "' has " + type.to_string() + " values; widen it before autocast",
                    ErrorKind::usage);
      }
      graph.set_type(value, {DType::fp64, type.shape});
    }
  }
}

}  // namespace ridgepoint
