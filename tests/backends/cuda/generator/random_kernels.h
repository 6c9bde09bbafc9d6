// Small random graphs of one op whose operands are views of inputs: transposed, flipped, broadcast, reshaped, or
// constants.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ops/layout.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint::testing {

struct RandomKernel {
  Graph graph;
  NodeId node;                   // the node whose kernel is tested
  std::int64_t index_bound = 1;  // int64 inputs called "targets..." are below it
  bool positive = false;         // floating inputs are well above zero
};

class RandomKernels {
 public:
  explicit RandomKernels(unsigned seed) : random_(seed) {}

  // A node of this op; nullopt if the random choices do not make one.
  std::optional<RandomKernel> draw(Op op) {
    made_ = {};
    try {
      made_.node = build(op);
      for (std::size_t i = 0; i < node().outputs.size(); ++i) {
        made_.graph.add_output("y" + std::to_string(i), node().outputs[i]);
      }
      value_layouts(made_.graph);
      return std::move(made_);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

 private:
  static constexpr std::int64_t kMostElements = 12000;

  const Node& node() const { return made_.graph.node(made_.node); }
  std::int64_t below(std::int64_t bound) { return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random_); }
  bool once_in(std::int64_t count) { return below(count) == 0; }
  template <typename T>
  T one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(list.size())))];
  }

  DType any_floating() {
    return one_of<DType>({DType::fp32, DType::fp32, DType::fp32, DType::bf16, DType::fp16, DType::fp64});
  }
  DType any_dtype() {
    return once_in(3) ? one_of<DType>({DType::int64, DType::int32, DType::boolean}) : any_floating();
  }

  Shape any_shape(int least_rank = 0) {
    static const std::vector<std::int64_t> sizes = {1,  1,  2,  3,  4,  5,  7,   8,   9,   15,  16,
                                                    17, 31, 33, 64, 65, 96, 127, 130, 257, 1001};
    // Lengths for which the generator chooses other variants.
    if (least_rank <= 1 && once_in(12)) return Shape{one_of<std::int64_t>({1003, 4096, 5003, 9001})};
    if (once_in(7)) return Shape{one_of<std::int64_t>({1, 3}), one_of<std::int64_t>({1500, 3001})};
    std::vector<Dim> dims;
    const std::int64_t rank = std::max<std::int64_t>(least_rank, below(5));
    std::int64_t elements = 1;
    while (static_cast<std::int64_t>(dims.size()) < rank) {
      const std::int64_t size = one_of(sizes);
      if (elements * size > kMostElements) continue;
      elements *= size;
      dims.emplace_back(size);
    }
    return Shape(dims);
  }

  Value stored(DType dtype, const Shape& shape, const std::string& prefix) {
    return input(made_.graph, prefix + std::to_string(made_.graph.inputs().size()), {dtype, shape}, Role::data);
  }

  // A view with this shape, of views of an input.
  Value viewed(DType dtype, const Shape& shape, const std::string& prefix = "x", int depth = 0) {
    Graph& graph = made_.graph;
    const int rank = shape.rank();
    const std::int64_t what = depth > 2 ? 0 : below(7);
    if (rank == 0 || what < 2) return reshaped(stored(dtype, once_in(6) ? flat(shape) : shape, prefix), shape);
    if (what < 4) {
      return flip(graph, viewed(dtype, shape, prefix, depth + 1), static_cast<int>(below(rank)));
    }
    if (what < 6) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random_);
      std::vector<Dim> before(order.size(), Dim(1));
      for (std::size_t i = 0; i < order.size(); ++i) {
        before[static_cast<std::size_t>(order[i])] = shape.dim(static_cast<int>(i));
      }
      return transpose(graph, viewed(dtype, Shape(before), prefix, depth + 1), order);
    }
    std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
    dims[static_cast<std::size_t>(below(rank))] = Dim(1);
    return broadcast(graph, viewed(dtype, Shape(dims), prefix, depth + 1), shape);
  }
  static Shape flat(const Shape& shape) { return Shape{shape.elements()}; }
  Value reshaped(Value x, const Shape& shape) {
    return made_.graph.type(x).shape == shape ? x : reshape(made_.graph, x, shape);
  }

  // An operand of this shape, or of one that the op broadcasts to this shape.
  Value operand(DType dtype, const Shape& shape) {
    if (once_in(10)) return constant(made_.graph, dtype == DType::boolean ? 1.0 : 2.0, dtype);
    std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
    if (!dims.empty() && once_in(4)) dims.erase(dims.begin());
    if (!dims.empty() && once_in(4))
      dims[static_cast<std::size_t>(below(static_cast<std::int64_t>(dims.size())))] = Dim(1);
    return viewed(dtype, Shape(dims));
  }

  NodeId make(Op op, const std::vector<Value>& operands, const Attributes& attributes = {}) {
    return make_node(made_.graph, op, operands, attributes);
  }

  NodeId build(Op op) {
    made_.positive =
        op == Op::log || op == Op::sqrt || op == Op::rsqrt || op == Op::div || op == Op::adamw || op == Op::adamw_8bit;
    if (op_class(op) == OpClass::elementwise) return build_elementwise(op);
    if (op_class(op) == OpClass::reduction) return build_reduction(op);
    return build_composite(op);
  }

  NodeId build_elementwise(Op op) {
    const Shape shape = any_shape(op == Op::iota ? 1 : 0);
    const DType dtype = any_dtype();
    const int count = input_count(op);
    if (op == Op::iota) {
      std::vector<std::int64_t> sizes;
      for (const Dim& dim : shape.dims()) sizes.push_back(dim.size);
      return make(op, {}, {{"shape", sizes}, {"axis", below(shape.rank())}, {"dtype", std::string(name(dtype))}});
    }
    if (op == Op::cast) return make(op, {viewed(dtype, shape)}, {{"dtype", std::string(name(any_dtype()))}});
    if (op == Op::where) return make(op, {operand(DType::boolean, shape), viewed(dtype, shape), operand(dtype, shape)});
    if (op == Op::join_halves) return make(op, {viewed(DType::bf16, shape), viewed(DType::low_half, shape)});
    if (count == 1) return make(op, {viewed(dtype, shape)});
    std::vector<Value> both = {viewed(dtype, shape), operand(dtype, shape)};
    if (once_in(2)) std::swap(both[0], both[1]);
    return make(op, both);
  }

  NodeId build_reduction(Op op) {
    // Two of three cases have sizes at which blocks share sums, or each thread has its own.
    static const std::vector<Shape> shapes = {Shape{9001}, Shape{1, 11003}, Shape{691, 17}, Shape{1501, 2, 4},
                                              Shape{3, 709}};
    const Shape shape = once_in(3) ? any_shape(1) : one_of(shapes);
    std::vector<std::int64_t> axes;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (axis == 0 || once_in(3)) axes.push_back(axis);
    }
    if (once_in(4)) axes = {shape.rank() - 1};
    return make(op, {viewed(any_dtype(), shape)}, {{"axes", axes}, {"keep_dims", once_in(2)}});
  }

  NodeId build_composite(Op op) {
    const DType dtype = any_floating();
    const Shape shape = any_shape(op == Op::causal_mask ? 2 : 1);
    const auto x = [&] { return viewed(dtype, shape); };
    const auto a_row = [&] { return viewed(dtype, Shape{shape.dim(-1)}); };
    const auto a_column = [&] {
      std::vector<Dim> dims(shape.dims().begin(), shape.dims().end() - 1);
      dims.emplace_back(1);
      return viewed(dtype, Shape(dims));
    };
    switch (op) {
      case Op::relu:
      case Op::silu:
      case Op::softplus:
      case Op::softmax:
      case Op::nonfinite:
      case Op::sum_of_squares: return make(op, {x()});
      case Op::silu_backward:
      case Op::softmax_backward: return make(op, {x(), x()});
      case Op::gelu: return make(op, {x()}, {{"tanh", once_in(2)}});
      case Op::gelu_backward: return make(op, {x(), x()}, {{"tanh", once_in(2)}});
      case Op::soft_cap: return make(op, {x()}, {{"cap", 1.5}});
      case Op::soft_cap_backward: return make(op, {x(), x()}, {{"cap", 4.0}});
      case Op::causal_mask: return make(op, {x()}, {{"fill", -1.0}, {"window", below(4)}});
      case Op::rms_norm: return make(op, {x(), a_row()}, {{"epsilon", 1e-5}});
      case Op::rms_norm_backward: return make(op, {x(), x(), a_row(), a_column()});
      case Op::layer_norm: return make(op, {x(), a_row(), a_row()}, {{"epsilon", 1e-5}});
      case Op::layer_norm_backward: return make(op, {x(), x(), a_row(), a_column(), a_column()});
      case Op::cross_entropy:
      case Op::cross_entropy_backward: return build_cross_entropy(op, dtype);
      case Op::adamw:
        return make(
            op, {stored(accumulator(dtype), {}, "x"), x(), x(), x(), x()},
            {{"learning_rate", 1e-2}, {"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-3}, {"weight_decay", 0.1}});
      case Op::adamw_8bit: return build_quantised_adamw(dtype);
      case Op::sgd:
        return make(op, {x(), x(), x()}, {{"learning_rate", 1e-2}, {"momentum", 0.9}, {"weight_decay", 0.1}});
      case Op::lion:
        return make(op, {x(), x(), x()},
                    {{"learning_rate", 1e-2}, {"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}});
      default: throw Error("no kernel is generated for it");
    }
  }

  NodeId build_quantised_adamw(DType dtype) {
    const Shape shape{1 + below(5), 256 * (1 + below(3))};
    const Shape scales{shape[0], shape[1] / 256};
    const auto x = [&](DType type, const Shape& of) { return viewed(type, of); };
    return make(Op::adamw_8bit,
                {stored(accumulator(dtype), {}, "x"), x(dtype, shape), x(dtype, shape), x(DType::dynamic8, shape),
                 x(DType::fp32, scales), x(DType::udynamic8, shape), x(DType::fp32, scales)},
                {{"learning_rate", 1e-2}, {"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-3}, {"weight_decay", 0.1}});
  }

  NodeId build_cross_entropy(Op op, DType dtype) {
    const Shape shape{once_in(3) ? 1 : 1 + below(9), one_of<std::int64_t>({1, 5, 33, 257, 1001})};
    const Shape rows{shape.dim(0)};
    made_.index_bound = shape[1];
    const Value logits = viewed(dtype, shape);
    const Value targets = viewed(DType::int64, rows, "targets");
    if (op == Op::cross_entropy) return make(op, {logits, targets});
    return make(op, {viewed(accumulator(dtype), rows), logits, targets, viewed(accumulator(dtype), rows)});
  }

  std::mt19937 random_;
  RandomKernel made_;
};

}  // namespace ridgepoint::testing
