// Gathers parameters of which each rank stores one part (ZeRO stage 3; PyTorch's fully_shard). The parameters of a
// block are gathered as one message when the previous block begins to run, those of a small block one block earlier,
// and freed after their last reader in the block. So at most two blocks are whole at a time, or three small ones.
// Forward, backward and each micro-batch gather separately. If every reader casts a parameter to the same 16-bit type,
// the cast comes before the gather, which then sends half as many bytes.
// With the other shardings a step gathers each divided parameter once, for all readers. The gathers run beside forward,
// in the order in which their results are read. The first gather begins the step; each other one begins with the block
// two before its own. They do not all begin at once, because a CUDA graph is launched branch by branch, and the first
// kernel of forward would wait behind all gathers.
// shard_optimizer has divided the parameters that are updated; with Sharding::parameters this pass also divides the
// others.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "ir/scope.h"
#include "ir/stored_tensors.h"
#include "passes/pass.h"
#include "passes/ranks/divided_parameter.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

// A block of fewer bytes is small. The ranks of such a gather mostly wait for one another: on four H200s a block of
// 14 MB takes 0.28 ms, about as long as its forward.
constexpr std::size_t kFewBytes = std::size_t{32} << 20;

// Divides the parameters that the run only reads.
void divide_constant_parameters(Graph& graph, const ParallelOptions& parallel) {
  const Readers readers(graph);
  for (const NodeId id : graph.inputs(Role::parameter)) {
    const Value parameter = graph.node(id).outputs[0];
    const TensorType& type = graph.type(parameter);
    const bool is_updated = std::ranges::find(graph.updates(), parameter, &Update::input) != graph.updates().end();
    if (is_updated || readers.is_result(parameter)) continue;
    if (is_floating(type.dtype) && may_divide(type.elements(), parallel.data, kPartElements))
      divide_parameter(graph, parameter, parallel, kPartElements, readers.of(parameter));
  }
}

class ParameterGatherer {
 public:
  ParameterGatherer(Graph& graph, const ParallelOptions& parallel)
      : graph_(graph),
        settings_(graph),
        readers_(graph),
        ranks_(parallel.data),
        frees_(parallel.shard == Sharding::parameters),
        source_of_(graph.value_count()) {}

  bool run() {
    const std::vector<NodeId> order = nodes_of(graph_);
    for (const NodeId id : order) visit(id);
    // A gather may stand before the place where the model declared the parameter.
    for (const Source& source : sources_) graph_.move_before(graph_.producer(source.part), order.front());
    const auto first = std::ranges::find_if(order, [&](NodeId id) { return launches(graph_.node(id).op); });
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      const std::size_t ahead = frees_ && bytes_of(segments_[i]) > kFewBytes ? 1 : 2;
      gather(segments_[i], i == 0 && !frees_ ? *first : segments_[i < ahead ? 0 : i - ahead].nodes[0]);
    }
    for (Segment& segment : segments_) {
      for (const NodeId id : segment.nodes) read_gathered(segment, id);
    }
    graph_.erase(replaced_);
    graph_.set_insertion_at_end();
    return !sources_.empty();
  }

 private:
  struct Source {
    Value part;
    Value whole;
    std::optional<DType> low = {};  // to which every reader casts it
    Value gathered = {};            // by the last segment that has gathered it
  };
  // Consecutive nodes that read parameters and belong to one block.
  struct Segment {
    std::string block;
    std::vector<NodeId> nodes;
    std::map<std::size_t, Value> gathered;  // by source
    std::map<Value, Value> values;          // that replace casts and views of parameters
  };

  const std::optional<std::size_t>& source_of(Value value) const { return source_of_[value.id]; }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (is_gather_of_parameter(node)) {
      add_source(id);
    } else if (is_cast_or_view_of_parameter(node)) {
      for (const Value value : node.outputs) source_of_[value.id] = source_of(node.inputs[0]);
      replaced_.push_back(id);
    } else if (reads_parameter(node)) {
      const std::string_view block = block_of(graph_.scope_name(node));
      if (segments_.empty() || segments_.back().block != block) segments_.push_back({std::string(block), {}, {}, {}});
      add_reader(segments_.back(), id);
    }
  }

  bool is_gather_of_parameter(const Node& node) const {
    if (node.op != Op::all_gather) return false;
    const Node& stored = graph_.producer_node(node.inputs[0]);
    return stored.op == Op::input && is_divided(stored);
  }

  void add_source(NodeId gather) {
    const Node& node = graph_.node(gather);
    Value whole = node.outputs[0];
    do whole = graph_.node(readers_.of(whole)[0]).outputs[0];  // the views that divide_parameter() made
    while (graph_.producer_node(whole).op == Op::split);
    source_of_[node.outputs[0].id] = sources_.size();
    sources_.push_back({node.inputs[0], whole, low_type_of(graph_, readers_.of(whole))});
    replaced_.push_back(gather);
  }

  // Each segment has its own casts and views, so that none keeps memory from forward to backward.
  bool is_cast_or_view_of_parameter(const Node& node) const {
    if (node.op != Op::cast && op_class(node.op) != OpClass::view) return false;
    return node.inputs.size() == 1 && source_of(node.inputs[0]) &&
           std::ranges::none_of(node.outputs, [&](Value value) { return readers_.is_result(value); });
  }

  bool reads_parameter(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](Value value) { return source_of(value).has_value(); });
  }

  void add_reader(Segment& segment, NodeId id) {
    segment.nodes.push_back(id);
    for (const Value value : graph_.node(id).inputs) {
      if (source_of(value)) segment.gathered.emplace(*source_of(value), Value());
    }
  }

  std::size_t bytes_of(const Segment& segment) const {
    std::size_t bytes = 0;
    for (const auto& [source, whole] : segment.gathered) {
      const Source& of = sources_[source];
      bytes += TensorType{of.low.value_or(graph_.type(of.part).dtype), graph_.type(of.whole).shape}.bytes();
    }
    return bytes;
  }

  void gather(Segment& segment, NodeId before) {
    graph_.set_insertion_before(before);
    graph_.set_phase(graph_.node(frees_ ? before : segment.nodes[0]).phase);
    graph_.set_scope(segment.block);
    std::vector<Value> parts;
    std::vector<Source*> gathered;
    for (const auto& [source, whole] : segment.gathered) {
      Source& of = sources_[source];
      if (of.gathered.valid() && !frees_) continue;
      parts.push_back(of.low ? cast(graph_, of.part, *of.low) : of.part);
      gathered.push_back(&of);
    }
    if (!parts.empty()) {
      const std::vector<Value> all = all_gather(graph_, parts, ranks_);
      for (std::size_t i = 0; i < all.size(); ++i)
        gathered[i]->gathered = without_padding(graph_, all[i], graph_.type(gathered[i]->whole));
    }
    for (auto& [source, whole] : segment.gathered) whole = sources_[source].gathered;
  }

  void read_gathered(Segment& segment, NodeId reader) {
    graph_.set_insertion_before(reader);
    for (std::size_t i = 0; i < graph_.node(reader).inputs.size(); ++i) {
      const Value value = graph_.node(reader).inputs[i];
      if (!source_of(value)) continue;
      const Value read = value_in(segment, value, graph_.node(reader).phase);
      graph_.node(reader).inputs[i] = read;
    }
  }

  // The segment's value for a parameter, or for a cast or view of a parameter.
  Value value_in(Segment& segment, Value value, Phase phase) {
    const Source& source = sources_[*source_of(value)];
    const Node node = graph_.producer_node(value);
    if (value == source.whole || (source.low && node.inputs[0] == source.whole))
      return segment.gathered.at(*source_of(value));
    if (const auto found = segment.values.find(value); found != segment.values.end()) return found->second;
    const Value operand = value_in(segment, node.inputs[0], phase);
    graph_.set_phase(phase);
    graph_.set_scope(graph_.scope_name(node));
    Node& made = graph_.node(make_node(graph_, node.op, {operand}, node.attributes));
    made.origin = node.origin;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      graph_.set_type(made.outputs[i], graph_.type(node.outputs[i]));
      segment.values[node.outputs[i]] = made.outputs[i];
    }
    return segment.values.at(value);
  }

  Graph& graph_;
  const GraphSettings settings_;
  const Readers readers_;
  const std::int64_t ranks_;
  const bool frees_;  // parameters behind their last reader in a block
  std::vector<Source> sources_;
  std::vector<std::optional<std::size_t>>
      source_of_;  // by value of the graph before: parameters, their casts and views
  std::vector<Segment> segments_;
  std::vector<NodeId> replaced_;
};

}  // namespace

bool gather_parameters(Graph& graph, const PassOptions& options) {
  if (!options.parallel.is_parallel() || options.parallel.shard == Sharding::none) return false;
  if (options.parallel.shard == Sharding::parameters) divide_constant_parameters(graph, options.parallel);
  return ParameterGatherer(graph, options.parallel).run();
}

}  // namespace ridgepoint
