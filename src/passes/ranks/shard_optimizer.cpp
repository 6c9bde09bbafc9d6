// Sharded optimizer states (ZeRO stage 1, Rajbhandari et al. 2020): each rank keeps the states of its part of every
// parameter, updates that part, and gathers the new parameter from all ranks. A part is every rank's share of the
// elements in their order. With Sharding::gradients (stage 2), gradients are freed during backward. The all_reduce of a
// gradient becomes a reduce_scatter, which sends half as much; the gather sends the other half.
// A parameter that a compiled run reads only in bf16 is divided: a rank stores and updates only its part. With
// Sharding::parameters (stage 3) every parameter is divided. gather_parameters then gathers the other parts in the next
// step. A parameter that a compiled run reads only in fp16 is stored in fp16, and the state "master.NAME" has the fp32
// values of the rank's part. New fp16 and fp32 parameters that are not divided are gathered at the end of the step.
// A part is a whole number of vectors. If a parameter does not divide so, zeros follow the last element of the
// parameter, its states and its gradient. A parameter with less than one vector for each rank stays whole on every
// rank. A gradient that is also an output is summed as a whole.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/stored_tensors.h"
#include "ops/collectives.h"
#include "ops/rules/optimizer/optimizer.h"
#include "ops/shape_rules.h"
#include "passes/pass.h"
#include "passes/ranks/divided_parameter.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// One bucket is summed while the gradients of the next are made; with a second sum under way, one slow sum does not
// stop backward.
constexpr std::int64_t kBucketsInFlight = 2;
// The least bytes of new parameters in a gather. Between H100s a gather of this size reaches 93 % of the bandwidth of
// the largest gathers.
constexpr std::size_t kGatherBytes = std::size_t{64} << 20;

class OptimizerSharder {
 public:
  OptimizerSharder(Graph& graph, const PassOptions& options)
      : graph_(graph), settings_(graph), options_(options), ranks_(options.parallel.data), readers_(graph) {}

  bool run() {
    for (const NodeId id : nodes_of(graph_)) {
      if (optimizer_layout(graph_.node(id)) && can_shard(graph_.node(id))) sharded_.push_back(id);
    }
    if (sharded_.empty()) return false;
    scatter_gradients();
    for (const NodeId id : sharded_) shard(id);
    gather_parameters();
    replace_updates();
    combine_nonfinite();
    combine_squares();
    std::vector<NodeId> removed(sharded_);
    removed.insert(removed.end(), replaced_.begin(), replaced_.end());
    graph_.replace_uses(replacements_);
    erase_unread(removed);
    graph_.set_insertion_at_end();
    return true;
  }

 private:
  bool can_shard(const Node& node) const {
    const OptimizerLayout layout = *optimizer_layout(node);
    const Value parameter = node.inputs[layout.scalars];
    const Node& producer = graph_.producer_node(parameter);
    const std::int64_t elements = graph_.type(parameter).elements();
    const bool pads = part_of_elements(elements, node) * ranks_ != elements;
    return producer.op == Op::input && !updates_several_tensors(node) &&
           may_divide(elements, ranks_, vector_of(node)) && !(pads && is_output(graph_, parameter)) &&
           sum_of(gradient_of(node)).has_value();
  }

  static std::int64_t vector_of(const Node& optimizer) {
    return optimizer_layout(optimizer)->has_blocks() ? kBlockElements : kPartElements;
  }
  std::int64_t part_of_elements(std::int64_t elements, const Node& optimizer) const {
    return part_elements(elements, ranks_, vector_of(optimizer));
  }

  Value gradient_of(const Node& node) const { return node.inputs[optimizer_layout(node)->scalars + 1]; }

  // The all_reduce result behind the value, which is the result itself or an exact cast of it.
  std::optional<Value> sum_of(Value gradient) const {
    const Value source = low_source(graph_, gradient).value_or(gradient);
    return graph_.producer_node(source).op == Op::all_reduce ? std::optional(source) : std::nullopt;
  }

  // Whether every reader of the sum, directly or through a cast, could read a part of it.
  bool is_read_by_optimizer_alone(Value sum) const {
    if (readers_.is_result(sum)) return false;
    return std::ranges::all_of(readers_.of(sum), [&](NodeId reader) {
      const Node& node = graph_.node(reader);
      if (node.op == Op::cast) return is_read_by_optimizer_alone(node.outputs[0]);
      return optimizer_layout(node).has_value() || reads_gradient(node, 0);
    });
  }

  // Splits each all_reduce into a reduce_scatter of the tensors that are read in parts, and an all_reduce of the rest.
  void scatter_gradients() {
    std::set<Value> whole;
    for (const NodeId id : sharded_) {
      const Node& node = graph_.node(id);
      const Value sum = *sum_of(gradient_of(node));
      part_elements_[sum] = part_of_elements(graph_.type(sum).elements(), node);
      (is_read_by_optimizer_alone(sum) ? in_parts_ : whole).insert(sum);
    }
    for (const Value sum : whole) parts_[sum] = part_of(sum, graph_.producer(sum), part_elements_.at(sum));
    std::set<NodeId> collectives;
    for (const Value sum : in_parts_) collectives.insert(graph_.producer(sum));
    for (const NodeId id : collectives) split_collective(id);
  }

  void split_collective(NodeId id) {
    const Node node = graph_.node(id);
    graph_.set_phase(node.phase);
    graph_.set_insertion_before(id);
    std::vector<Value> scattered, scattered_results, rest, rest_results;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value sum = node.outputs[i];
      const bool in_parts = in_parts_.contains(sum);
      (in_parts ? scattered_results : rest_results).push_back(sum);
      in_parts ? scattered.push_back(with_padding(graph_, node.inputs[i], part_elements_.at(sum) * ranks_))
               : rest.push_back(node.inputs[i]);
    }
    const auto bucket = node.attributes.get<std::int64_t>("bucket");
    const auto mark = [&](const std::vector<Value>& results) {
      Attributes& attributes = graph_.node(graph_.producer(results[0])).attributes;
      attributes.set("bucket", bucket);
      if (!options_.parallel.overlap) attributes.set(kExposed, true);
    };
    const std::vector<Value> parts = reduce_scatter(graph_, scattered, ranks_);
    mark(parts);
    if (options_.parallel.shard != Sharding::optimizer)
      graph_.node(graph_.producer(parts[0])).attributes.set(kInFlight, kBucketsInFlight);
    for (std::size_t i = 0; i < parts.size(); ++i) parts_[scattered_results[i]] = parts[i];
    if (!rest.empty()) {
      const std::vector<Value> sums = all_reduce(graph_, rest, ranks_);
      mark(sums);
      for (std::size_t i = 0; i < sums.size(); ++i) replacements_.emplace_back(rest_results[i], sums[i]);
    }
    replaced_.push_back(id);
  }

  // This rank's part of a tensor that all ranks have, directly after `after`.
  Value part_of(Value whole, NodeId after, std::int64_t elements) {
    graph_.set_insertion_behind(after);
    // The elements before this rank's part and after it are one part each, for any number of ranks.
    const std::int64_t rank = options_.parallel.rank;
    std::vector<std::int64_t> sizes;
    for (const std::int64_t parts : {rank, std::int64_t{1}, ranks_ - rank - 1}) {
      if (parts > 0) sizes.push_back(parts * elements);
    }
    return split(graph_, with_padding(graph_, whole, elements * ranks_), 0, sizes)[rank > 0 ? 1 : 0];
  }

  void shard(NodeId id) {
    const Node node = graph_.node(id);
    const OptimizerLayout layout = *optimizer_layout(node);
    const Value parameter = node.inputs[layout.scalars];
    std::optional<DType> low = low_type_of_readers(parameter, id);
    const bool divided =
        !is_output(graph_, parameter) && (options_.parallel.shard == Sharding::parameters || low == DType::bf16);
    if (divided) low.reset();
    const TensorType type = graph_.type(parameter);
    const std::int64_t part = part_of_elements(type.elements(), node);
    const Value mine = divided ? divided_parameter(parameter, id)
                       : low   ? master_of(parameter, *low, part)
                               : part_of_parameter(parameter, id, part);
    graph_.set_phase(node.phase);
    graph_.set_scope(graph_.scope_name(node));
    graph_.set_insertion_before(id);
    std::vector<Value> operands(node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(layout.scalars));
    operands.push_back(mine);
    operands.push_back(gradient_part(gradient_of(node)));
    for (std::size_t j = 0; j < layout.states.size(); ++j)
      operands.push_back(shard_state(node.inputs[layout.scalars + 2 + j], type.elements(), part));
    Attributes attributes = node.attributes;
    if (low) attributes.set(kLowCopy, std::string(name(graph_.type(parameter).dtype)));
    const std::vector<Value> results = graph_.node(make_node(graph_, node.op, operands, std::move(attributes))).outputs;
    for (std::size_t j = 0; j < layout.states.size(); ++j)
      updates_[node.inputs[layout.scalars + 2 + j]] = results[1 + j];
    if (low) updates_[mine] = results[0];
    if (divided) {
      updates_[parameter] = results[0];
    } else {
      gathered_.push_back({parameter, low ? results.back() : results[0]});
    }
  }

  // Makes the parameter store only this rank's part; readers other than the optimizer read a gather.
  Value divided_parameter(Value parameter, NodeId optimizer) {
    divide_parameter(graph_, parameter, options_.parallel, vector_of(graph_.node(optimizer)),
                     other_readers(parameter, optimizer));
    return parameter;
  }

  std::vector<NodeId> other_readers(Value parameter, NodeId optimizer) const {
    std::vector<NodeId> others;
    std::ranges::remove_copy(readers_.of(parameter), std::back_inserter(others), optimizer);
    return others;
  }

  // A parameter that this rank stores as a whole, and its part of it.
  Value part_of_parameter(Value parameter, NodeId optimizer, std::int64_t part) {
    if (const Value whole = stored_with_padding(parameter, part); whole != parameter) {
      for (const NodeId reader : other_readers(parameter, optimizer))
        std::ranges::replace(graph_.node(reader).inputs, parameter, whole);
    }
    return part_of(parameter, graph_.producer(parameter), part);
  }

  // Makes the parameter store the parts of all ranks. Returns the value for its readers: the parameter itself if it
  // needs no padding.
  Value stored_with_padding(Value parameter, std::int64_t part) {
    const TensorType type = graph_.type(parameter);
    if (part * ranks_ == type.elements()) return parameter;
    store_flat(graph_, parameter, part * ranks_);
    const NodeId stored = graph_.producer(parameter);
    graph_.set_phase(graph_.node(stored).phase);
    graph_.set_scope(graph_.scope_name(graph_.node(stored)));
    graph_.set_insertion_behind(stored);
    return without_padding(graph_, parameter, type);
  }

  Value gradient_part(Value gradient) {
    const Value part = parts_.at(*sum_of(gradient));
    const DType dtype = graph_.type(gradient).dtype;
    return graph_.type(part).dtype == dtype ? part : cast(graph_, part, dtype);
  }

  // The 16-bit type to which every reader but the optimizer casts the parameter; the parameter is then stored in it.
  std::optional<DType> low_type_of_readers(Value parameter, NodeId optimizer) const {
    if (options_.level == Compile::off || graph_.type(parameter).dtype != DType::fp32) return std::nullopt;
    return is_output(graph_, parameter) ? std::nullopt : low_type_of(graph_, other_readers(parameter, optimizer));
  }

  // Stores the parameter in the type of its readers, and this rank's part of it in fp32.
  Value master_of(Value parameter, DType low, std::int64_t part) {
    const TensorType type = graph_.type(parameter);
    graph_.node(graph_.producer(parameter)).attributes.set(kDeclaredDType, std::string(name(type.dtype)));
    graph_.set_type(parameter, {low, type.shape});
    const Value whole = stored_with_padding(parameter, part);
    for (const NodeId reader : readers_.of(parameter)) {
      const Node& node = graph_.node(reader);
      if (node.op != Op::cast) continue;
      replacements_.emplace_back(node.outputs[0], whole);
      replaced_.push_back(reader);
    }
    const Node& stored = graph_.producer_node(parameter);
    const std::string parameter_name = input_name(stored);
    graph_.set_phase(stored.phase);
    graph_.set_scope(graph_.scope_name(stored));
    graph_.set_insertion_before(graph_.producer(parameter));
    const Value master = input(graph_, "master." + parameter_name, {type.dtype, Shape{part}}, Role::state);
    Attributes& attributes = graph_.node(graph_.producer(master)).attributes;
    attributes.set(kPartOf, parameter_name);
    attributes.set(kPart, options_.parallel.rank);
    return master;
  }

  // A state has one element for each element of the parameter, or for a fixed number of elements.
  Value shard_state(Value state, std::int64_t elements_of_parameter, std::int64_t part) {
    store_flat(graph_, state, part / (elements_of_parameter / graph_.type(state).elements()));
    graph_.node(graph_.producer(state)).attributes.set(kPart, options_.parallel.rank);
    return state;
  }

  // A gather for every kGatherBytes of parameters, after the last of their updates, so that it runs beside later
  // updates. Updates of one kind between two gathers are still one kernel.
  void gather_parameters() {
    std::vector<Value> parameters, parts;
    std::size_t bytes = 0;
    for (const auto& [parameter, part] : gathered_) {
      parameters.push_back(parameter);
      parts.push_back(part);
      bytes += graph_.type(parameter).bytes();
      if (bytes < kGatherBytes && part != gathered_.back().second) continue;
      gather(parameters, parts);
      parameters.clear();
      parts.clear();
      bytes = 0;
    }
  }

  void gather(const std::vector<Value>& parameters, const std::vector<Value>& parts) {
    graph_.set_phase(Phase::optimizer);
    graph_.set_scope("");
    graph_.set_insertion_behind(graph_.producer(parts.back()));
    const std::vector<Value> whole = all_gather_into(graph_, parameters, parts, ranks_);
    for (std::size_t i = 0; i < whole.size(); ++i) updates_[parameters[i]] = whole[i];
  }

  void replace_updates() {
    std::vector<Update> updates(graph_.updates().begin(), graph_.updates().end());
    graph_.clear_updates();
    for (const Update& update : updates) {
      if (!updates_.contains(update.input)) graph_.add_update(update.input, update.value);
    }
    for (const auto& [input, value] : updates_) graph_.add_update(input, value);
  }

  // With loss scaling, each rank looks for NaN and infinity in its parts: what it found is summed over ranks.
  void combine_nonfinite() {
    std::optional<Value> found;
    for (const NodeId id : nodes_of(graph_)) {
      Node& node = graph_.node(id);
      if (node.op != Op::nonfinite) continue;
      if (const std::optional<Value> sum = sum_of(node.inputs[0]); sum && in_parts_.contains(*sum)) {
        graph_.set_insertion_before(id);
        const Value part = gradient_part(node.inputs[0]);
        graph_.node(id).inputs[0] = part;
        found = node.outputs[0];
      }
    }
    if (!found) return;
    NodeId last = graph_.producer(*found);
    while (const std::optional<NodeId> reader = adding_reader(*found)) {
      last = *reader;
      found = graph_.node(last).outputs[0];
    }
    graph_.set_phase(Phase::optimizer);
    graph_.set_scope(graph_.scope_name(graph_.node(last)));
    graph_.set_insertion_behind(last);
    const Value sum = all_reduce(graph_, {*found}, ranks_)[0];
    for (const NodeId reader : readers_.of(*found)) std::ranges::replace(graph_.node(reader).inputs, *found, sum);
  }

  // Each rank sums the squares of its parts; the results are summed over ranks. Every rank has the whole of other
  // gradients.
  void combine_squares() {
    for (const NodeId id : nodes_of(graph_)) {
      const Node node = graph_.node(id);
      if (node.op != Op::sum_of_squares) continue;
      graph_.set_phase(node.phase);
      graph_.set_scope(graph_.scope_name(node));
      graph_.set_insertion_before(id);
      std::vector<Value> parts, whole;
      for (const Value gradient : node.inputs) {
        const std::optional<Value> sum = sum_of(gradient);
        const bool in_parts = sum && in_parts_.contains(*sum);
        (in_parts ? parts : whole).push_back(in_parts ? gradient_part(gradient) : gradient);
      }
      if (parts.empty()) continue;
      Value sum = all_reduce(graph_, {sum_of_squares(graph_, parts)}, ranks_)[0];
      if (!whole.empty()) sum = add(graph_, sum, sum_of_squares(graph_, whole));
      replacements_.emplace_back(node.outputs[0], sum);
      replaced_.push_back(id);
    }
  }

  std::optional<NodeId> adding_reader(Value value) const {
    for (const NodeId reader : readers_.of(value)) {
      if (graph_.node(reader).op == Op::add) return reader;
    }
    return std::nullopt;
  }

  // Removes the nodes, and casts of sums that nothing reads now.
  void erase_unread(std::vector<NodeId> nodes) {
    for (const Value sum : in_parts_) {
      for (const NodeId reader : readers_.of(sum)) {
        if (graph_.node(reader).op == Op::cast) nodes.push_back(reader);
      }
    }
    std::ranges::sort(nodes);
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    graph_.erase(nodes);
  }

  Graph& graph_;
  const GraphSettings settings_;
  const PassOptions& options_;
  const std::int64_t ranks_;
  const Readers readers_;
  std::vector<NodeId> sharded_, replaced_;       // optimizers; casts and collectives
  std::set<Value> in_parts_;                     // sums that become parts
  std::map<Value, std::int64_t> part_elements_;  // by sum
  std::map<Value, Value> parts_;                 // by sum
  std::map<Value, Value> updates_;               // new values by input
  std::vector<std::pair<Value, Value>> gathered_, replacements_;
};

}  // namespace

bool shard_optimizer(Graph& graph, const PassOptions& options) {
  if (!options.parallel.is_parallel() || options.parallel.shard == Sharding::none || options.mode != Mode::step)
    return false;
  return OptimizerSharder(graph, options).run();
}

}  // namespace ridgepoint
