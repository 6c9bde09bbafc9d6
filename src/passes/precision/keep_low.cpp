// Passes that keep weights, gradients and logits in bf16 or fp16, where autocast would cast them.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ir/queries.h"
#include "ir/stored_tensors.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/node_rewriter.h"
#include "passes/pass.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class WeightKeeper : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    for (const NodeId id : graph_.inputs(Role::parameter)) visit(graph_.node(id));
    return rewriter_.finish();
  }

 private:
  void visit(Node& parameter) {
    const Value value = parameter.outputs[0];
    if (graph_.type(value).dtype != DType::fp32) return;
    const std::vector<NodeId> casts = casts_of(value);
    if (casts.empty()) return;
    const auto update = std::ranges::find(graph_.updates(), value, &Update::input);
    if (update == graph_.updates().end()) {
      if (casts.size() == readers_.of(value).size() && !readers_.is_result(value)) store_low(parameter, casts);
    } else if (const NodeId optimizer = graph_.producer(update->value); optimizer_layout(graph_.node(optimizer))) {
      may_split(casts, *update) ? split(parameter, casts, optimizer) : add_copy(parameter, casts, optimizer);
    }
  }

  // The casts to the low type, which is the type of the first cast.
  std::vector<NodeId> casts_of(Value value) const {
    std::vector<NodeId> casts;
    for (const NodeId reader : readers_.of(value)) {
      const Node& node = graph_.node(reader);
      if (node.op != Op::cast || !is_low(graph_.type(node.outputs[0]).dtype)) continue;
      if (casts.empty() || low_type(casts.front()) == low_type(reader)) casts.push_back(reader);
    }
    return casts;
  }
  TensorType low_type(NodeId cast) const { return graph_.type(graph_.node(cast).outputs[0]); }

  // Whether nothing but the optimizer and the casts, to bf16, reads the parameter.
  bool may_split(const std::vector<NodeId>& casts, const Update& update) const {
    const Value value = update.input;
    const Node& optimizer = graph_.producer_node(update.value);
    return low_type(casts.front()).dtype == DType::bf16 &&
           optimizer.inputs[optimizer_layout(optimizer)->scalars] == value &&
           readers_.of(value).size() == casts.size() + 1 && !readers_.is_result(value) &&
           readers_.of(update.value).empty() &&
           std::ranges::find(graph_.outputs(), update.value, &Output::value) == graph_.outputs().end();
  }

  void store_low(Node& parameter, const std::vector<NodeId>& casts) {
    const Value value = parameter.outputs[0];
    parameter.attributes.set(kDeclaredDType, std::string(name(graph_.type(value).dtype)));
    graph_.set_type(value, low_type(casts.front()));
    replace(casts, value);
  }

  // A state that belongs to the parameter, which the attribute `of` names.
  Value add_state(NodeId parameter, std::string_view prefix, DType dtype, std::string_view of) {
    const std::string name = input_name(graph_.node(parameter));
    const Shape shape = graph_.type(graph_.node(parameter).outputs[0]).shape;
    rewriter_.insert_before(parameter);
    const Value state = input(graph_, std::string(prefix) + name, {dtype, shape}, Role::state);
    graph_.node(graph_.producer(state)).attributes.set(of, name);
    return state;
  }

  void split(Node& parameter, const std::vector<NodeId>& casts, NodeId optimizer) {
    const NodeId id = graph_.producer(parameter.outputs[0]);
    store_low(parameter, casts);
    const Value rest = add_state(id, "rest.", DType::low_half, kLowHalfOf);
    Node before = graph_.node(optimizer);
    before.inputs.push_back(rest);
    before.attributes.set(kSplit, true);
    replace_optimizer(optimizer, before, rest);
  }

  void add_copy(const Node& parameter, const std::vector<NodeId>& casts, NodeId optimizer) {
    const DType low = low_type(casts.front()).dtype;
    const Value copy = add_state(graph_.producer(parameter.outputs[0]), "low.", low, kCopyOf);
    replace(casts, copy);
    Node before = graph_.node(optimizer);
    before.attributes.set(kLowCopy, std::string(name(low)));
    replace_optimizer(optimizer, before, copy);
  }

  // Inserts `changed` in its place. The last result of `changed`, which the optimizer lacks, is the new value of
  // `state`.
  void replace_optimizer(NodeId optimizer, const Node& changed, Value state) {
    rewriter_.insert_before(optimizer);
    const Node& made = graph_.node(make_node(graph_, changed.op, changed.inputs, changed.attributes));
    rewriter_.replace(optimizer, std::span(made.outputs).first(changed.outputs.size()));
    graph_.add_update(state, made.outputs.back());
  }

  void replace(const std::vector<NodeId>& casts, Value low) {
    for (const NodeId cast : casts) rewriter_.replace(cast, low);
  }
};

class FrozenKeeper : NodeRewriter {
 public:
  FrozenKeeper(Graph& graph, const PassOptions& options)
      : NodeRewriter(graph, options.target), low_(matmul_dtype(options.precision)) {}

  bool run() {
    for (const NodeId id : graph_.inputs(Role::parameter)) {
      Node& parameter = graph_.node(id);
      const Value value = parameter.outputs[0];
      const bool is_frozen = parameter.attributes.get_or(kFrozen, false);
      if (!is_frozen || graph_.type(value).dtype != DType::fp32 || !is_read_low(value)) continue;
      parameter.attributes.set(kDeclaredDType, std::string(name(DType::fp32)));
      store_low(value);
    }
    return rewriter_.finish();
  }

 private:
  // Whether the value and its views are read only by casts to the low type and by look-ups of rows, whose results can
  // be cast instead. A parameter that nothing reads is not stored at all.
  bool is_read_low(Value value) const {
    return are_all_readers(graph_, readers_, value, [&](const Node& reader) {
      if (reader.op == Op::cast) return graph_.type(reader.outputs[0]).dtype == low_;
      return reader.op == Op::embedding;
    });
  }

  void store_low(Value value) {
    graph_.set_type(value, {low_, graph_.type(value).shape});
    for (const NodeId id : readers_.of(value)) {
      const Node& reader = graph_.node(id);
      if (reader.op == Op::cast) {
        rewriter_.replace(id, value);
      } else if (reader.op == Op::embedding) {
        widen_rows(id);
      } else {
        for (const Value part : std::vector(reader.outputs)) store_low(part);
      }
    }
  }

  void widen_rows(NodeId id) {
    const Node looked_up = graph_.node(id);
    rewriter_.insert_before(id);
    const Value rows = graph_.node(make_node(graph_, looked_up.op, looked_up.inputs, looked_up.attributes)).outputs[0];
    const Value widened = cast(graph_, rows, DType::fp32);
    rewriter_.replace_by_new(id, {&widened, 1});
  }

  DType low_;
};

class LogitsKeeper : NodeRewriter {
 public:
  using NodeRewriter::NodeRewriter;

  bool run() {
    for (const NodeId id : nodes_of(graph_)) {
      const Node& node = graph_.node(id);
      if (node.op == Op::cross_entropy) read_low(id, 0);
      if (node.op == Op::cross_entropy_backward) read_low(id, 1);
    }
    if (!rewriter_.finish()) return false;
    // So that later passes do not take the casts for readers of the logits.
    erase_unused(graph_, [](const Node& node) { return node.op == Op::cast; });
    return true;
  }

 private:
  // Whether casts to `low` are all that reads the value.
  bool is_cast_to(Value value, DType low) const {
    const std::span<const NodeId> readers = readers_.of(value);
    return !readers.empty() && !readers_.is_result(value) && std::ranges::all_of(readers, [&](NodeId id) {
      const Node& reader = graph_.node(id);
      return reader.op == Op::cast && graph_.type(reader.outputs[0]).dtype == low;
    });
  }

  void read_low(NodeId id, std::size_t logits) {
    Node low = graph_.node(id);
    const std::optional<Value> source = low_source(graph_, low.inputs[logits]);
    if (!source) return;
    if (low.op == Op::cross_entropy_backward && !is_cast_to(low.outputs[0], graph_.type(*source).dtype)) return;
    low.inputs[logits] = *source;
    if (!target_.has_kernel(graph_, low)) return;
    rewriter_.insert_before(id);
    const NodeId made = make_node(graph_, low.op, low.inputs, low.attributes);
    if (low.op == Op::cross_entropy_backward) {
      for (const NodeId cast : readers_.of(low.outputs[0])) rewriter_.replace(cast, graph_.node(made).outputs[0]);
      rewriter_.remove(id);
    } else {
      rewriter_.replace(id, std::vector(graph_.node(made).outputs));
    }
  }
};

}  // namespace

// Stores a frozen parameter in the low type of the step, without an fp32 copy, if the step reads it only in that type.
// The vectors of norms and biases stay fp32, because the step computes with them in fp32.
bool keep_frozen_low(Graph& graph, const PassOptions& options) {
  return is_low(matmul_dtype(options.precision)) && FrozenKeeper(graph, options).run();
}

// Stores bf16 and fp16 weights, so that no run casts them. If the run updates a parameter, and all other readers read
// it in bf16, it is stored in two halves: the bf16 weight, and the state "rest.NAME" with the other 16 bits of its fp32
// value. Any other updated parameter keeps its fp32 values and gets a low copy, the state "low.NAME". The optimizer
// writes these states with the parameter, and Program::write_input writes their first values. A parameter that the run
// only reads, always in the same low type, is stored in that type alone.
bool keep_weights_low(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && WeightKeeper(graph, options.target).run();
}

// Lets the optimizer read the bf16 and fp16 gradients of products. Autocast casts such a gradient to the type of its
// parameter; the cast is exact, so the optimizer computes the same without it.
bool keep_gradients_low(Graph& graph, const PassOptions& options) {
  if (options.level == Compile::off) return false;
  bool changed = false;
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<Value> low = low_source(graph, node.inputs[i]);
      if (!low || !reads_gradient(node, i)) continue;
      node.inputs[i] = *low;
      changed = true;
    }
  }
  return changed;
}

// Lets cross-entropy read bf16 and fp16 logits, and write a rounded gradient. Autocast casts the logits to fp32 and the
// gradient back. The kernels compute in fp32 in either case, so the pass saves two fp32 copies of the logits.
bool keep_logits_low(Graph& graph, const PassOptions& options) {
  return options.level != Compile::off && LogitsKeeper(graph, options.target).run();
}

}  // namespace ridgepoint
