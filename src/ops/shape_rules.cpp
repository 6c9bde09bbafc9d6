#include "ops/shape_rules.h"

#include <algorithm>

#include "ir/permutation.h"

namespace ridgepoint {

DType common_floating_dtype(const ShapeContext& context) {
  const DType dtype = context.inputs[0].dtype;
  for (const TensorType& type : context.inputs) {
    require(is_floating(type.dtype), "operands must be floating; cast first");
    require(type.dtype == dtype, "operands must share a dtype; cast first");
  }
  return dtype;
}

void require_compute(const Attributes& attributes, DType dtype) {
  const std::string compute = attributes.get_or<std::string>("compute", std::string(name(dtype)));
  require(compute == name(dtype) || (compute == "tf32" && dtype == DType::fp32),
          [&] { return "products of " + std::string(name(dtype)) + " cannot be computed in '" + compute + "'"; });
}

std::vector<TensorType> infer_same(const ShapeContext& context) {
  common_floating_dtype(context);
  return {context.inputs[0]};
}

Shape row_shape(const Shape& shape) {
  std::vector<Dim> dims(shape.dims().begin(), shape.dims().end());
  dims.back() = Dim(1);
  return Shape(dims);
}

std::vector<int> reduced_axes(const Attributes& attributes, int rank) {
  std::vector<int> axes;
  for (const std::int64_t axis : attributes.get<std::vector<std::int64_t>>("axes"))
    axes.push_back(normalise_axis(axis, rank));
  std::sort(axes.begin(), axes.end());
  require(std::adjacent_find(axes.begin(), axes.end()) == axes.end(), "an axis is named twice");
  return axes;
}

std::vector<TensorType> infer_reduction(const ShapeContext& context) {
  const TensorType& x = context.inputs[0];
  require(is_floating(x.dtype), "the operand of a reduction must be floating; cast first");
  const std::vector<int> axes = reduced_axes(context.attributes, x.shape.rank());
  const bool keep = context.attributes.get<bool>("keep_dims");
  std::vector<Dim> dims;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), i);
    if (reduced) {
      require(x.shape[i] > 0 || context.op != Op::reduce_max, "the maximum over no elements is not defined");
      if (keep) dims.emplace_back(1);
    } else {
      dims.push_back(x.shape.dim(i));
    }
  }
  return {{x.dtype, Shape(dims)}};
}

Value with_kept_dims(Graph& graph, Value reduced, const TensorType& operand, const Attributes& attributes) {
  if (attributes.get<bool>("keep_dims")) return reduced;
  const std::vector<int> axes = reduced_axes(attributes, operand.shape.rank());
  std::vector<Dim> dims(operand.shape.dims().begin(), operand.shape.dims().end());
  for (const int axis : axes) dims[static_cast<std::size_t>(axis)] = Dim(1);
  return reshape(graph, reduced, Shape(dims));
}

Value zeros(Graph& graph, const TensorType& type) {
  return broadcast(graph, constant(graph, 0.0, type.dtype), type.shape);
}

Value with_labels(Graph& graph, Value value, const Shape& shape) {
  graph.set_type(value, {graph.type(value).dtype, shape});
  return value;
}

Shape shape_attribute(const Attributes& attributes) {
  const auto& sizes = attributes.get<std::vector<std::int64_t>>("shape");
  return Shape(std::vector<Dim>(sizes.begin(), sizes.end()));
}

std::vector<std::int64_t> sizes_of(const Shape& shape) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(shape.dims().size());
  for (const Dim& dim : shape.dims()) sizes.push_back(dim.size);
  return sizes;
}

Value swap_last_two_axes(Graph& graph, Value x) {
  return transpose(graph, x, with_last_two_swapped(identity_permutation(graph.type(x).shape.rank())));
}

Value cast_to(Graph& graph, Value x, DType dtype) { return graph.type(x).dtype == dtype ? x : cast(graph, x, dtype); }

Value row_mean(Graph& graph, Value x) {
  return scale(graph, reduce_sum(graph, x, {-1}, true), 1.0 / static_cast<double>(graph.type(x).shape[-1]));
}

}  // namespace ridgepoint
