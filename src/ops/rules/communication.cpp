// Ops that run beside the launches that follow: collectives and transfers.
//
// Collectives: every rank has a node at the same place of the same graph, and results depend on the operands of all
// ranks. Each takes any number of tensors, which are one message where the network has that. The attribute `ranks` is
// their number. Names are those of MPI and NCCL.
//
//   all_reduce            x -> the sum of the x of all ranks, of the same type
//   reduce_scatter        x -> [elements / ranks], this rank's part of that sum
//   all_gather            x [n,...] -> [ranks * n,...], the x of all ranks in order. With the attribute `into`, the
//                         first half of the operands are tensors of any shape with as many elements: the results have
//                         their types, and may overwrite them
//   collective_broadcast  x -> the x of rank `root`
//
// Transfers copy any number of tensors between the memory of the host and that of the device.
//
//   copy_from_host        x -> x, of tensors that lie in the memory of the host
//   copy_to_host          x -> x, of tensors that lie in the memory of the device. The results lie in that of the host:
//                         where an input did that they update, otherwise in memory of their own
#include "core/checked.h"
#include "ops/collectives.h"
#include "ops/layout.h"
#include "ops/shape_rules.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {
namespace {

std::int64_t checked_ranks(const ShapeContext& context) {
  const std::int64_t ranks = context.attributes.get<std::int64_t>("ranks");
  require(ranks >= 1, "there must be a rank");
  require(!context.inputs.empty(), "there must be an operand");
  return ranks;
}

void require_summable(const ShapeContext& context) {
  for (const TensorType& type : context.inputs) require(is_floating(type.dtype), "operands must be floating");
}

std::vector<TensorType> infer_all_reduce(const ShapeContext& context) {
  checked_ranks(context);
  require_summable(context);
  return {context.inputs.begin(), context.inputs.end()};
}

std::vector<TensorType> infer_reduce_scatter(const ShapeContext& context) {
  const std::int64_t ranks = checked_ranks(context);
  require_summable(context);
  std::vector<TensorType> types;
  for (const TensorType& type : context.inputs) {
    require(type.elements() % ranks == 0, "the elements of each operand must be a multiple of the ranks");
    types.push_back({type.dtype, Shape{type.elements() / ranks}});
  }
  return types;
}

bool gathers_into(const Attributes& attributes) { return attributes.get_or(kInto, false); }

std::vector<TensorType> infer_all_gather_into(const ShapeContext& context, std::int64_t ranks) {
  const std::size_t count = context.inputs.size() / 2;
  require(2 * count == context.inputs.size(), "there must be a part for each tensor");
  for (std::size_t i = 0; i < count; ++i) {
    const TensorType& whole = context.inputs[i];
    const TensorType& part = context.inputs[count + i];
    const std::int64_t elements = checked_product({part.elements(), ranks}, "the elements of all ranks");
    require(part.dtype == whole.dtype && elements == whole.elements(),
            "the parts of all ranks must have the dtype and the elements of the tensor");
  }
  return {context.inputs.begin(), context.inputs.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::vector<TensorType> infer_all_gather(const ShapeContext& context) {
  const std::int64_t ranks = checked_ranks(context);
  if (gathers_into(context.attributes)) return infer_all_gather_into(context, ranks);
  std::vector<TensorType> types;
  for (const TensorType& type : context.inputs) {
    require(type.shape.rank() >= 1, "operands must have a dimension");
    const std::int64_t rows = checked_product({type.shape[0], ranks}, "the rows of all ranks");
    types.push_back({type.dtype, with_size(type.shape, 0, rows)});
  }
  return types;
}

std::vector<TensorType> infer_collective_broadcast(const ShapeContext& context) {
  const std::int64_t ranks = checked_ranks(context);
  const std::int64_t root = context.attributes.get<std::int64_t>("root");
  require(root >= 0 && root < ranks, "the root must be one of the ranks");
  return {context.inputs.begin(), context.inputs.end()};
}

std::vector<TensorType> infer_transfer(const ShapeContext& context) {
  require(!context.inputs.empty(), "there must be an operand");
  return {context.inputs.begin(), context.inputs.end()};
}

// Read in one memory and written in the other.
std::int64_t moved_bytes(const Graph& graph, const Node& node) {
  std::int64_t bytes = 0;
  for (const Value value : node.outputs) bytes += 2 * static_cast<std::int64_t>(storage_type(graph, value).bytes());
  return bytes;
}

std::vector<std::pair<int, int>> each_result_in_its_operand(const Node& node) {
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) pairs.emplace_back(i, i);
  return pairs;
}

std::vector<std::pair<int, int>> donations_of_all_gather(const Node& node) {
  return gathers_into(node.attributes) ? each_result_in_its_operand(node) : std::vector<std::pair<int, int>>();
}

std::vector<Value> collective(Graph& graph, Op op, std::vector<Value> values, std::int64_t ranks,
                              const Source& source) {
  return graph.node(make_node(graph, op, std::move(values), {{"ranks", ranks}}, source)).outputs;
}

}  // namespace

extern const OpRule rule_all_reduce{.infer = infer_all_reduce, .donations = each_result_in_its_operand};
extern const OpRule rule_reduce_scatter{.infer = infer_reduce_scatter};
extern const OpRule rule_all_gather{.infer = infer_all_gather, .donations = donations_of_all_gather};
extern const OpRule rule_collective_broadcast{.infer = infer_collective_broadcast,
                                              .donations = each_result_in_its_operand};
extern const OpRule rule_copy_from_host{.infer = infer_transfer, .bytes = moved_bytes};
extern const OpRule rule_copy_to_host{.infer = infer_transfer, .bytes = moved_bytes};

std::span<const Value> sent_operands(const Node& node) { return std::span(node.inputs).last(node.outputs.size()); }

double wire_bytes(const Graph& graph, const Node& node) {
  const auto ranks = static_cast<double>(node.attributes.get<std::int64_t>("ranks"));
  double whole_bytes = 0;  // of the larger side: what a rank sends in pieces of 1 / ranks
  const std::vector<Value>& larger = node.op == Op::all_gather ? node.outputs : node.inputs;
  for (const Value value : larger) whole_bytes += static_cast<double>(graph.type(value).bytes());
  switch (node.op) {
    case Op::all_reduce: return 2 * (ranks - 1) / ranks * whole_bytes;
    case Op::reduce_scatter:
    case Op::all_gather: return (ranks - 1) / ranks * whole_bytes;
    case Op::collective_broadcast: return ranks > 1 ? whole_bytes : 0;
    default: throw Error("node " + std::string(name(node.op)) + " is no collective");
  }
}

std::vector<Value> all_reduce(Graph& graph, std::vector<Value> values, std::int64_t ranks, const Source& source) {
  return collective(graph, Op::all_reduce, std::move(values), ranks, source);
}

std::vector<Value> reduce_scatter(Graph& graph, std::vector<Value> values, std::int64_t ranks, const Source& source) {
  return collective(graph, Op::reduce_scatter, std::move(values), ranks, source);
}

std::vector<Value> all_gather(Graph& graph, std::vector<Value> values, std::int64_t ranks, const Source& source) {
  return collective(graph, Op::all_gather, std::move(values), ranks, source);
}

std::vector<Value> all_gather_into(Graph& graph, std::vector<Value> tensors, const std::vector<Value>& parts,
                                   std::int64_t ranks, const Source& source) {
  tensors.insert(tensors.end(), parts.begin(), parts.end());
  const Attributes attributes = {{"ranks", ranks}, {std::string(kInto), true}};
  return graph.node(make_node(graph, Op::all_gather, std::move(tensors), attributes, source)).outputs;
}

std::vector<Value> collective_broadcast(Graph& graph, std::vector<Value> values, std::int64_t ranks, std::int64_t root,
                                        const Source& source) {
  const NodeId made =
      make_node(graph, Op::collective_broadcast, std::move(values), {{"ranks", ranks}, {"root", root}}, source);
  return graph.node(made).outputs;
}

std::vector<Value> copy_from_host(Graph& graph, std::vector<Value> on_host, const Source& source) {
  return graph.node(make_node(graph, Op::copy_from_host, std::move(on_host), {}, source)).outputs;
}

std::vector<Value> copy_to_host(Graph& graph, std::vector<Value> values, const Source& source) {
  return graph.node(make_node(graph, Op::copy_to_host, std::move(values), {}, source)).outputs;
}

}  // namespace ridgepoint
