// Passes that store the frozen weights of linear layers in 4 or 8 bits (core/packed/packed_matrix.h). An fp8 weight is
// a matrix of codes and a scale, which quantise_products lets 8-bit products read directly.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/text/units.h"
#include "core/warning.h"
#include "ir/packed_weight.h"
#include "ir/queries.h"
#include "ir/stored_tensors.h"
#include "passes/node_rewriter.h"
#include "passes/pass.h"
#include "passes/precision/head_products.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class WeightChooser {
 public:
  explicit WeightChooser(Graph& graph) : graph_(graph), readers_(graph), heads_(graph) {}

  bool run(const PassOptions& options) {
    std::map<std::string_view, const PublishedWeight*> published;
    for (const PublishedWeight& one : options.published_weights) published.emplace(one.parameter, &one);
    bool changed = false;
    std::size_t expert_bytes = 0;
    for (const NodeId id : graph_.inputs(Role::parameter)) {
      Node& parameter = graph_.node(id);
      const TensorType& type = graph_.type(parameter.outputs[0]);
      const bool is_frozen = parameter.attributes.get_or(kFrozen, false);
      if (!is_frozen || !is_low(type.dtype) || type.elements() == 0) continue;
      if (is_of_experts(parameter.outputs[0])) expert_bytes += type.bytes();
      if (type.shape.rank() != 2) continue;
      if (!is_of_layer(parameter.outputs[0])) continue;
      const auto found = published.find(input_name(parameter));
      if (found != published.end() && found->second->stays_wide) continue;
      parameter.attributes.set(kPackedAs, std::string(name(options.base_weights)));
      const bool has_order = found != published.end() && options.base_weights != BaseWeights::fp8;
      if (has_order && found->second->rows != RowOrder{})
        parameter.attributes.set(kRowOrder, numbers_of(found->second->rows));
      changed = true;
    }
    if (expert_bytes > 0) {
      const std::string message = fmt::format("--base-weights {}: weights of experts stay in 16 bits, {} of them",
                                              name(options.base_weights), format_bytes(expert_bytes));
      warn_once(message, message);
    }
    return changed;
  }

 private:
  // Whether only products of linear layers, but not the head, read the value and its views. Autocast leaves views that
  // nothing reads.
  bool is_of_layer(Value value) const {
    return are_all_readers(graph_, readers_, value, [&](const Node& reader) {
      return op_class(reader.op) == OpClass::contraction && !heads_.contains(reader.outputs[0]);
    });
  }

  bool is_of_experts(Value value) const {
    return std::ranges::any_of(readers_.of(value), [&](NodeId id) { return graph_.node(id).op == Op::grouped_matmul; });
  }

  Graph& graph_;
  Readers readers_;
  HeadProducts heads_;
};

class WeightPacker : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    bool changed = false;
    for (const NodeId id : graph_.inputs(Role::parameter)) {
      if (graph_.node(id).attributes.contains(kPackedAs)) changed = pack(graph_.node(id)) || changed;
    }
    // The views of the elements are no views of the packed bytes.
    if (changed) erase_unused(graph_, [](const Node& node) { return op_class(node.op) == OpClass::view; });
    return changed;
  }

 private:
  // Products read a value through these views, outermost first.
  struct Use {
    NodeId product;
    std::vector<Value> views;
  };

  // False where something else reads the value, or a view of it.
  bool find_uses(Value value, std::vector<Value> views, std::vector<Use>& uses) const {
    if (readers_.is_result(value)) return false;
    return std::ranges::all_of(readers_.of(value), [&](NodeId id) {
      const Node& reader = graph_.node(id);
      if (op_class(reader.op) == OpClass::contraction) {
        uses.push_back({id, views});
        return true;
      }
      if (op_class(reader.op) != OpClass::view || reader.outputs.size() != 1) return false;
      std::vector<Value> inner = views;
      inner.push_back(reader.outputs[0]);
      return find_uses(reader.outputs[0], std::move(inner), uses);
    });
  }

  bool pack(Node& parameter) {
    const Value value = parameter.outputs[0];
    const TensorType type = graph_.type(value);
    std::vector<Use> uses;
    if (is_divided(parameter) || !find_uses(value, {}, uses)) return false;
    const BaseWeights format = base_weights_from_name(parameter.attributes.get<std::string>(kPackedAs));
    parameter.attributes.set(kFormat, std::string(name(format)));
    if (format == BaseWeights::fp8) {
      store_codes(value, type, uses);
      return true;
    }
    std::vector<std::int64_t> rows = part_rows(parameter);
    if (rows.empty()) rows = {type.shape[0]};
    parameter.attributes.set(kDeclaredShape, std::vector<std::int64_t>{type.shape[0], type.shape[1]});
    graph_.set_type(value, {DType::packed, {packed_bytes(packed_parts(format, rows, type.shape[1]))}});
    const auto order = parameter.attributes.get_or<std::vector<std::int64_t>>(kRowOrder, {});
    for (const Use& use : uses) {
      widen(use, value, type, [&] {
        const Value elements = dequantise(graph_, value, format, rows, type.shape[1], type.dtype);
        if (!order.empty()) graph_.node(graph_.producer(elements)).attributes.set(kRowOrder, order);
        return elements;
      });
    }
    return true;
  }

  void store_codes(Value value, const TensorType& type, const std::vector<Use>& uses) {
    const std::string name = input_name(graph_.producer_node(value));
    graph_.set_type(value, {DType::e4m3, type.shape});
    rewriter_.insert_before(graph_.producer(value));
    const Value scale = input(graph_, "scale." + name, {DType::fp32, Shape()}, Role::state);
    graph_.node(graph_.producer(scale)).attributes.set(kScaleOf, name);
    for (const Use& use : uses) widen(use, value, type, [&] { return widen_codes(graph_, value, scale, type.dtype); });
  }

  // Each product widens the weight again, so no elements are kept from forward to backward.
  template <typename MakeElements>
  void widen(const Use& use, Value packed, const TensorType& type, const MakeElements& make_elements) {
    rewriter_.insert_before(use.product);
    const Value before = use.views.empty() ? packed : use.views.back();
    Value elements = make_elements();
    graph_.set_type(elements, type);
    for (const Value view : use.views) elements = rewriter_.rebuild_view(view, elements);
    std::ranges::replace(graph_.node(use.product).inputs, before, elements);
  }
};

}  // namespace

// Marks the frozen weights of linear layers that pack_weights stores as options.base_weights says. As in bitsandbytes,
// the head and a table that it shares with the embedding are not marked.
bool choose_packed_weights(Graph& graph, const PassOptions& options) {
  return options.base_weights != BaseWeights::as_is && WeightChooser(graph).run(options);
}

// Stores the marked weights in 4 or 8 bits, and widens them before each product that reads them.
bool pack_weights(Graph& graph, const PassOptions& options) {
  return options.base_weights != BaseWeights::as_is && WeightPacker(graph, options.target).run();
}

}  // namespace ridgepoint
