#include "support/graphs/op_cases/cases.h"

#include <utility>

namespace ridgepoint::testing {

std::function<Graph(DType)> graph_of(std::vector<Shape> shapes, Apply apply, std::vector<Shape> index_shapes) {
  return [=](DType dtype) {
    Graph graph;
    Values inputs;
    for (const Shape& shape : shapes)
      inputs.push_back(input(graph, "x" + std::to_string(inputs.size()), {dtype, shape}, Role::data));
    for (const Shape& shape : index_shapes)
      inputs.push_back(input(graph, "x" + std::to_string(inputs.size()), {DType::int64, shape}, Role::data));
    const Values outputs = apply(graph, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) graph.add_output("y" + std::to_string(i), outputs[i]);
    return graph;
  };
}

OpCase& OpCases::add_case(Op op, const std::string& variant, std::function<Graph(DType)> build) {
  all.push_back({op, std::string(name(op)) + (variant.empty() ? "" : "_" + variant), std::move(build)});
  return all.back();
}

void OpCases::unary(Op op, double low, double high) {
  const auto apply = [op](Graph& g, const Values& x) { return Values{g.node(make_node(g, op, {x[0]})).outputs[0]}; };
  for (const Shape& shape : {Shape{3, 5}, Shape{1}, Shape{2, 1, 67}, Shape{}, Shape{7, 130}}) {
    OpCase& made = add_case(op, shape_name(shape), graph_of({shape}, apply));
    made.low = low;
    made.high = high;
  }
  // A transposed operand.
  OpCase& strided = add_case(op, "transposed", graph_of({Shape{5, 33}}, [op](Graph& g, const Values& x) {
                               return Values{g.node(make_node(g, op, {transpose(g, x[0], {1, 0})})).outputs[0]};
                             }));
  strided.low = low;
  strided.high = high;
}

void OpCases::binary(Op op, double low, double high, bool differentiable) {
  const std::vector<std::pair<Shape, Shape>> shapes = {{{3, 5}, {3, 5}}, {{4, 1, 17}, {3, 1}}, {{1}, {65}},
                                                       {{}, {2, 3}},     {{2, 9}, {9}},        {{6, 1}, {1, 70}}};
  for (const auto& [a, b] : shapes) {
    OpCase& made = add_case(op, shape_name(a) + "_" + shape_name(b), graph_of({a, b}, [op](Graph& g, const Values& x) {
                              return Values{g.node(make_node(g, op, {x[0], x[1]})).outputs[0]};
                            }));
    made.low = low;
    made.high = high;
    made.differentiable = differentiable;
  }
}

void OpCases::reduction(Op op) {
  const std::vector<std::pair<Shape, std::vector<std::int64_t>>> variants = {
      {{4, 67}, {-1}},        {{4, 67}, {0}},     {{3, 4, 5}, {1}}, {{3, 4, 5}, {0, 2}},
      {{2, 3, 4, 5}, {1, 2}}, {{3, 130}, {0, 1}}, {{1, 5}, {0}},    {{5, 1}, {1}}};
  for (const auto& [shape, axes] : variants) {
    for (const bool keep : {false, true}) {
      std::string label = shape_name(shape) + "_over";
      for (const std::int64_t axis : axes) label += "_" + std::to_string(axis < 0 ? axis + shape.rank() : axis);
      add_case(op, label + (keep ? "_keep" : ""), graph_of({shape}, [op, axes = axes, keep](Graph& g, const Values& x) {
                 return Values{g.node(make_node(g, op, {x[0]}, {{"axes", axes}, {"keep_dims", keep}})).outputs[0]};
               }));
    }
  }
}

std::string OpCases::shape_name(const Shape& shape) {
  std::string text;
  for (const Dim& dim : shape.dims()) text += (text.empty() ? "" : "x") + std::to_string(dim.size);
  return text.empty() ? "scalar" : text;
}

}  // namespace ridgepoint::testing
