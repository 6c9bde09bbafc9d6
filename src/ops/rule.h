// The functions of an op: shape rule, derivative, cost, decomposition. One OpRule an op, `rule_<name>`, found through
// rule(op). Fields left null take the default said beside them. What is no function stands in op_list.def.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ridgepoint/graph.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {

// What a shape rule sees: operand types and attributes. It throws Error on a broken rule.
struct ShapeContext {
  Op op;
  std::span<const TensorType> inputs;
  const Attributes& attributes;
};

// Exact work of one node: floating-point operations (a matmul is 2MNK, an elementwise op or a reduction one an
// element, a composite the sum over its decomposition) and bytes (each stored operand element read once, each
// output element written once).
struct Cost {
  std::int64_t flops = 0;
  std::int64_t bytes = 0;
};

struct OpRule {
  std::vector<TensorType> (*infer)(const ShapeContext&) = nullptr;

  // Given d loss / d output (invalid Value where an output is not on the path), builds d loss / d input for each
  // input; an invalid Value means no gradient flows there. Null, or an empty result: composites differentiate their
  // decomposition, other ops have no derivative.
  std::vector<Value> (*vjp)(Graph& graph, const Node& node, std::span<const Value> output_gradients) = nullptr;

  // Of a composite, the operands from this one on are ones that `vjp` takes for constants: where the gradient by one of
  // them is wanted, the decomposition is differentiated.
  std::size_t first_constant_operand = SIZE_MAX;

  // The operand that stays in the accumulator of the others' dtype: autocast leaves it as it is. SIZE_MAX: none.
  std::size_t accumulator_operand = SIZE_MAX;

  // Floating-point operations of one node. Given where the op's traits say Arithmetic::formula, and there alone.
  std::int64_t (*flops)(const Graph& graph, const Node& node) = nullptr;

  // Bytes of one node. Null: every stored operand element read once, every output element written once.
  std::int64_t (*bytes)(const Graph& graph, const Node& node) = nullptr;

  // Builds the same values from simpler ops at the graph's insertion point; one value an output. Composites only.
  std::vector<Value> (*decompose)(Graph& graph, const Node& node) = nullptr;

  // Pairs {output, input}: the output takes over the input's storage. Null: none.
  std::vector<std::pair<int, int>> (*donations)(const Node& node) = nullptr;
};

const OpRule& rule(Op op);

// On a composite, true: it runs as the ops it stands for even where the device has a kernel of its own.
inline constexpr const char* kPlainAttribute = "plain";

// Throws Error where 64 bits do not count it.
Cost cost(const Graph& graph, const Node& node);
// The operations of all nodes of a graph.
std::int64_t flops_of(const Graph& graph);

// The node alone as a graph: its inputs become inputs "0", "1", ...; its outputs outputs "0", "1", ....
// Composites are decomposed all the way down to primitives.
Graph body_of(const Graph& graph, const Node& node);

// Builds the node's value from primitives in place of itself, at the insertion point, composites within
// composites included; returns one value an output.
std::vector<Value> decompose_fully(Graph& graph, const Node& node);

}  // namespace ridgepoint
