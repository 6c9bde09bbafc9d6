// Gradient accumulation: a run has several micro-batches, one after another, before the optimizer runs once. Each
// further micro-batch has copies of the nodes that depend on data; other nodes, such as casts of weights, run once.
// Data has the batches of all micro-batches along its first dimension. A gradient is added as soon as it is made, in
// its own type: fp32, except without master weights. Gradients are means because differentiate_outputs begins with 1 /
// micro-batches. The loss and other scalars are means too, and results have the rows of all micro-batches. A state that
// a forward pass updates from its data is refused: each micro-batch would need the state that the previous one leaves.
// With options.keep.micro_gradient_norm, the norm of the gradients of the first micro-batch is an output.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ops/rule.h"
#include "passes/pass.h"
#include "passes/training/training.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

class Accumulator {
 public:
  Accumulator(Graph& graph, std::int64_t count)
      : graph_(graph), settings_(graph), count_(count), depends_(values_of_data(graph)) {
    find_region();
    joined_.resize(graph.value_count());
    find_joined();
  }

  // `ranks`: where the norm of the first micro-batch is an output.
  void run(std::optional<std::int64_t> ranks) {
    const std::vector<Values> parts = split_data();
    if (ranks) add_norm_of_first(*ranks);
    for (std::size_t i = 1; i < parts.size(); ++i) copy_region(parts[i]);
    for (const NodeId id : region_) {
      for (Value& value : graph_.node(id).inputs) value = mapped(parts[0], value);
    }
    replace_in_optimizer();
    replace_in_outputs();
    graph_.set_insertion_at_end();
  }

 private:
  using Values = std::map<Value, Value>;
  // How the values of micro-batches become one: gradients and losses are added, results are put side by side.
  enum class Joining : std::uint8_t { none, sum, rows };
  struct Joined {
    Joining how = Joining::none;
    Value sum;  // so far
    std::vector<Value> rows;
  };

  static bool is_optimizer(const Node& node) { return node.phase == Phase::optimizer; }
  static Value mapped(const Values& values, Value value) {
    const auto found = values.find(value);
    return found == values.end() ? value : found->second;
  }

  void find_region() {
    for (const NodeId id : nodes_of(graph_)) {
      const Node& node = graph_.node(id);
      if (is_optimizer(node)) {
        if (!first_of_optimizer_.valid()) first_of_optimizer_ = id;
      } else if (std::ranges::any_of(node.inputs, [&](Value value) { return depends_[value.id]; })) {
        region_.push_back(id);
      }
    }
  }

  void find_joined() {
    for (const NodeId id : graph_.order()) {
      if (!is_optimizer(graph_.node(id))) continue;
      for (const Value value : graph_.node(id).inputs) join(value, Joining::sum);
    }
    for (const Output& output : graph_.outputs()) {
      const bool is_sum = output.role == OutputRole::gradient || graph_.type(output.value).shape.rank() == 0;
      join(output.value, is_sum ? Joining::sum : Joining::rows);
    }
  }

  void join(Value value, Joining how) {
    Joined& joined = joined_[value.id];
    const Node& producer = graph_.producer_node(value);
    if (joined.how != Joining::none || is_optimizer(producer)) return;
    if (depends_[value.id]) {
      joined = {how, value, {value}};
    } else if (producer.phase == Phase::backward) {
      insert_like(producer);  // a gradient that is the same in each
      joined = {Joining::sum, scale(graph_, value, static_cast<double>(count_)), {}};
    }
  }

  // Gives each data input the batches of all micro-batches. Returns the part of each data input, by micro-batch.
  std::vector<Values> split_data() {
    std::vector<Values> parts(static_cast<std::size_t>(count_));
    for (const NodeId id : graph_.inputs(Role::data)) {
      const Value data = graph_.node(id).outputs[0];
      const TensorType type = graph_.type(data);
      if (type.shape.rank() == 0 || type.shape[0] > INT64_MAX / count_) {
        throw Error("data '" + input_name(graph_.node(id)) + "' " + type.to_string() +
                        " cannot have micro-batches along its first dimension",
                    ErrorKind::usage);
      }
      graph_.set_type(data, {type.dtype, with_size(type.shape, 0, type.shape[0] * count_)});
      insert_like(graph_.node(id));
      graph_.set_insertion_behind(id);
      const std::vector<std::int64_t> sizes(parts.size(), type.shape[0]);
      const std::vector<Value> made = split(graph_, data, 0, sizes);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        graph_.set_type(made[i], type);  // with its labels
        parts[i][data] = made[i];
      }
    }
    return parts;
  }

  // All gradients of the first micro-batch exist before the second one adds to them, so their norm takes almost no
  // memory. The norm is computed in backward, because the optimizer reads only sums over micro-batches and ranks.
  void add_norm_of_first(std::int64_t ranks) {
    const auto reads_gradients = [&](NodeId id) {
      return graph_.node(id).op == Op::sum_of_squares && is_optimizer(graph_.node(id));
    };
    const std::vector<NodeId> nodes = nodes_of(graph_);
    const auto found = std::ranges::find_if(nodes, reads_gradients);
    if (found == nodes.end()) return;
    const std::vector<Value> gradients = graph_.node(*found).inputs;
    graph_.set_phase(Phase::backward);
    graph_.set_scope(graph_.scope_name(graph_.node(*found)));
    graph_.set_insertion_before(first_of_optimizer_);
    const Value squares = sum_of_squares(graph_, gradients);
    const Value of_share = sqrt(graph_, squares);  // of the mean over all micro-batches of all ranks
    Value norm = scale(graph_, of_share, static_cast<double>(count_ * ranks));
    if (const std::optional<Value> loss_scale = graph_.find_input(kLossScale)) norm = div(graph_, norm, *loss_scale);
    graph_.add_output(std::string(kMicroGradientNorm), norm);
  }

  void copy_region(Values copies) {
    for (const NodeId id : region_) {
      const Node& node = graph_.node(id);
      std::vector<Value> inputs;
      for (const Value value : node.inputs) inputs.push_back(mapped(copies, value));
      insert_like(node);
      const Node& made = copy_node(graph_, graph_, node, inputs);
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        copies[node.outputs[i]] = made.outputs[i];
        add_to_joined(node.outputs[i], made.outputs[i]);
      }
    }
  }

  void add_to_joined(Value original, Value copy) {
    Joined& joined = joined_[original.id];
    if (joined.how == Joining::rows) joined.rows.push_back(copy);
    if (joined.how != Joining::sum) return;
    const NodeId made = make_node(graph_, Op::add, {joined.sum, copy}, {{std::string(kAccumulates), true}});
    joined.sum = graph_.node(made).outputs[0];
  }

  // New nodes go before the optimizer and have the phase and the scope of `node`.
  void insert_like(const Node& node) {
    graph_.set_phase(node.phase);
    graph_.set_scope(graph_.scope_name(node));
    first_of_optimizer_.valid() ? graph_.set_insertion_before(first_of_optimizer_) : graph_.set_insertion_at_end();
  }

  const Joined* joined_of(Value value) const {
    return value.id < joined_.size() && joined_[value.id].how != Joining::none ? &joined_[value.id] : nullptr;
  }

  void replace_in_optimizer() {
    for (const NodeId id : graph_.order()) {
      Node& node = graph_.node(id);
      if (!is_optimizer(node)) continue;
      for (Value& value : node.inputs) {
        if (const Joined* joined = joined_of(value)) value = joined->sum;
      }
    }
  }

  void replace_in_outputs() {
    rewrite_outputs(graph_, [&](Output& output) {
      const Joined* joined = joined_of(output.value);
      if (joined == nullptr) return;
      insert_like(graph_.producer_node(output.value));
      output.value = joined->how == Joining::rows ? concat(graph_, joined->rows, 0) : joined->sum;
      if (joined->how == Joining::sum && output.role != OutputRole::gradient)
        output.value = scale(graph_, output.value, 1.0 / static_cast<double>(count_));
    });
  }

  Graph& graph_;
  const GraphSettings settings_;
  const std::int64_t count_;
  const std::vector<bool> depends_;  // by value: on data
  NodeId first_of_optimizer_;
  std::vector<NodeId> region_;  // nodes that depend on data, without the optimizer
  std::vector<Joined> joined_;  // by value of the first micro-batch
};

}  // namespace

std::string state_of_data(const Graph& graph) {
  const std::vector<bool> depends = values_of_data(graph);
  for (const Update& update : graph.updates()) {
    const bool is_optimizer = graph.producer_node(update.value).phase == Phase::optimizer;
    if (!is_optimizer && depends[update.value.id]) return input_name(graph.producer_node(update.input));
  }
  return "";
}

bool accumulate_gradients(Graph& graph, const PassOptions& options) {
  if (options.accumulate == 1 || !runs_backward(options.mode)) return false;
  if (const std::string state = state_of_data(graph); !state.empty())
    throw Error("micro-batches cannot update the state '" + state + "' one after another; run one batch at a time",
                ErrorKind::unsupported);
  const std::int64_t ranks = options.parallel.data;
  Accumulator(graph, options.accumulate).run(options.keep.micro_gradient_norm ? std::optional(ranks) : std::nullopt);
  return true;
}

}  // namespace ridgepoint
