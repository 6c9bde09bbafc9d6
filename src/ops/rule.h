// The functions of an op: shape rule, derivative, cost, decomposition. Each op has one OpRule, `rule_<name>`; rule(op)
// returns it. A null field means the default that its comment gives. Constant properties are in op_list.def.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {

// Throws Error (usage) for an attribute that the op has not, or that has another type. It names those of the op.
void check_attributes(Op op, const Attributes& attributes);

// The arguments of a shape rule, which throws Error where they break it.
struct ShapeContext {
  Op op;
  std::span<const TensorType> inputs;
  const Attributes& attributes;
};

// The work of one node: floating-point operations (a matmul has 2MNK, an elementwise op or a reduction one per element,
// a composite the sum over its decomposition) and bytes (each stored operand element is read once, each output element
// written once).
struct Cost {
  std::int64_t flops = 0;
  std::int64_t bytes = 0;
};

struct OpRule {
  std::vector<TensorType> (*infer)(const ShapeContext&) = nullptr;

  // The vector-Jacobian product: builds d loss / d input for each input from d loss / d output. An invalid Value means
  // a zero gradient, of outputs and inputs alike. Null, or an empty result: composites differentiate their
  // decomposition, other ops have no derivative.
  std::vector<Value> (*vjp)(Graph& graph, const Node& node, std::span<const Value> output_gradients) = nullptr;

  // `vjp` treats the operands from this one on as constants. Where the gradient of one of them is needed, the
  // decomposition is differentiated instead.
  std::size_t first_constant_operand = SIZE_MAX;

  // The operands from this one on are of the accumulator dtype of the others, also after autocast. SIZE_MAX: none.
  std::size_t first_accumulator_operand = SIZE_MAX;

  // Floating-point operations of one node. Not null exactly for ops of Arithmetic::formula.
  std::int64_t (*flops)(const Graph& graph, const Node& node) = nullptr;

  // Bytes of one node. Null: every stored operand element read once, every output element written once.
  std::int64_t (*bytes)(const Graph& graph, const Node& node) = nullptr;

  // Builds the outputs from simpler ops at the graph's insertion point. Composites and fused nodes only.
  std::vector<Value> (*decompose)(Graph& graph, const Node& node) = nullptr;

  // Pairs {output, input}: the output may overwrite the input's storage. Null: none.
  std::vector<std::pair<int, int>> (*donations)(const Node& node) = nullptr;
};

const OpRule& rule(Op op);

// Where this attribute of a composite is true, the composite is decomposed even where the device has a kernel for it.
inline constexpr const char* kPlainAttribute = "plain";

// The attribute of the node that adds the gradient of a micro-batch to the sum, where it is true. Such nodes stay apart
// when nodes are fused: one kernel for several of them would keep the gradients of all these micro-batches until the
// last is there.
inline constexpr std::string_view kAccumulates = "accumulates";

// The operand that a product adds to its sums, and over which it may write its result: that of matmul_add, and the
// optional one of scaled_matmul.
std::optional<std::size_t> addend_operand(const Node& node);

// The attribute of cross_entropy and its derivative: the factor of the squared log-sum-exp in the loss; 0 without it.
inline constexpr const char* kZLoss = "z_loss";

// The name of the op, or of the body of a fused node.
std::string_view operation_name(const Node& node);

// Throws Error on overflow of 64 bits.
Cost cost(const Graph& graph, const Node& node);
// The bytes of cost() alone, without a decomposition.
std::int64_t bytes_of(const Graph& graph, const Node& node);
// The floating-point operations of all nodes of a graph.
std::int64_t flops_of(const Graph& graph);

// A graph that computes the node alone, with inputs "0", "1", ... and outputs "0", "1", ....
// Composites are decomposed all the way down to primitives. The body of a fused node.
Graph body_of(const Graph& graph, const Node& node);

// Builds the node's outputs from primitives at the insertion point, decomposing nested composites too. Does not remove
// the node.
std::vector<Value> decompose_fully(Graph& graph, const Node& node);

}  // namespace ridgepoint
