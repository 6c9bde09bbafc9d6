// Graphs at sizes that make the generator choose each of its variants.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ridgepoint/ops/ops.h"
#include "ridgepoint/ops/optimizer.h"
#include "support/graphs/op_cases.h"

namespace ridgepoint::testing {
namespace generator {

using Values = std::vector<Value>;

inline OpCase make_case(std::string name, std::vector<Shape> shapes, std::function<Values(Graph&, const Values&)> apply,
                        std::vector<Shape> index_shapes = {}) {
  OpCase made{Op::copy, std::move(name), {}};
  made.build = [=](DType dtype) {
    Graph graph;
    Values inputs;
    const auto add = [&](DType type, const Shape& shape) {
      inputs.push_back(input(graph, "x" + std::to_string(inputs.size()), {type, shape}, Role::data));
    };
    for (const Shape& shape : shapes) add(dtype, shape);
    for (const Shape& shape : index_shapes) add(DType::int64, shape);
    const Values outputs = apply(graph, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) graph.add_output("y" + std::to_string(i), outputs[i]);
    return graph;
  };
  return made;
}

inline Values outputs_of(Graph& g, Op op, const Values& inputs, const Attributes& attributes = {}) {
  return g.node(make_node(g, op, inputs, attributes)).outputs;
}

inline void add_rows(std::vector<OpCase>& cases) {
  const std::vector<Shape> shapes = {{3, 1500}, {2, 5000}, {40, 1024}, {200, 96}, {1000, 8},
                                     {300, 20}, {65, 33},  {2, 40000}, {5, 28000}};
  for (const Shape& shape : shapes) {
    cases.push_back(make_case("softmax " + shape.to_string(), {shape},
                              [](Graph& g, const Values& x) { return Values{softmax(g, x[0])}; }));
    cases.push_back(make_case("rms_norm " + shape.to_string(), {shape, Shape{shape[1]}}, [](Graph& g, const Values& x) {
      const auto [y, r] = rms_norm(g, x[0], x[1], 1e-5);
      return Values{y, r};
    }));
    cases.push_back(make_case("rms_norm_backward " + shape.to_string(),
                              {shape, shape, Shape{shape[1]}, Shape{shape[0], 1}},
                              [](Graph& g, const Values& x) { return outputs_of(g, Op::rms_norm_backward, x); }));
    OpCase& loss = cases.emplace_back(make_case("cross_entropy " + shape.to_string(), {shape},
                                                [](Graph& g, const Values& x) {
                                                  const auto [loss_rows, lse] = cross_entropy(g, x[0], x[1]);
                                                  return Values{loss_rows, lse};
                                                },
                                                {Shape{shape[0]}}));
    loss.index_bound = shape[1];
  }
  cases.push_back(make_case("softmax of a transpose", {Shape{70, 90}}, [](Graph& g, const Values& x) {
    return Values{softmax(g, transpose(g, x[0], {1, 0}))};
  }));
}

inline void add_reductions(std::vector<OpCase>& cases) {
  const std::vector<std::pair<Shape, std::vector<std::int64_t>>> variants = {
      {{100003}, {0}},     {{1 << 17}, {0}},       {{2, 70000}, {1}},      {{4096, 24}, {0}},  {{513, 96}, {0}},
      {{7, 300, 33}, {1}}, {{50, 3, 40}, {0}},     {{50, 3, 40}, {0, 2}},  {{5, 64, 64}, {0}}, {{300, 7}, {0}},
      {{3, 2000, 2}, {1}}, {{8, 8, 8, 8}, {1, 3}}, {{8, 8, 8, 8}, {0, 2}}, {{2000, 260}, {0}}, {{9, 5, 600}, {0, 2}}};
  for (const auto& [shape, axes] : variants) {
    for (const Op op : {Op::reduce_sum, Op::reduce_max}) {
      std::string label = std::string(name(op)) + shape.to_string();
      for (const std::int64_t axis : axes) label += " " + std::to_string(axis);
      cases.push_back(make_case(label, {shape}, [op, axes = axes](Graph& g, const Values& x) {
        return outputs_of(g, op, {x[0]}, {{"axes", axes}, {"keep_dims", false}});
      }));
      cases.push_back(make_case(label + " of a transpose", {shape}, [op, axes = axes](Graph& g, const Values& x) {
        std::vector<std::int64_t> order;
        for (int axis = g.type(x[0]).shape.rank() - 1; axis >= 0; --axis) order.push_back(axis);
        return outputs_of(g, op, {transpose(g, x[0], order)}, {{"axes", axes}, {"keep_dims", true}});
      }));
    }
  }
}

inline void add_elementwise(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{1001}, Shape{4096}, Shape{3, 1001}, Shape{7, 3, 130}, Shape{5000}}) {
    cases.push_back(make_case("add " + shape.to_string(), {shape, shape},
                              [](Graph& g, const Values& x) { return Values{add(g, x[0], x[1])}; }));
    cases.push_back(make_case("where " + shape.to_string(), {shape, shape}, [](Graph& g, const Values& x) {
      return Values{where(g, less(g, x[0], x[1]), x[0], x[1])};
    }));
    cases.push_back(make_case("add to a row " + shape.to_string(), {shape, Shape{shape[-1]}},
                              [](Graph& g, const Values& x) { return Values{add(g, x[0], x[1])}; }));
    OpCase& update = cases.emplace_back(
        make_case("adamw " + shape.to_string(), {Shape{}, shape, shape, shape, shape}, [](Graph& g, const Values& x) {
          return optimizer_step(g, {}, {.step = x[0], .parameter = x[1], .gradient = x[2], .states = {x[3], x[4]}});
        }));
    update.low = 0.5;
    update.high = 3.0;
  }
  cases.push_back(make_case("causal mask", {Shape{3, 64, 128}}, [](Graph& g, const Values& x) {
    return Values{causal_mask(g, x[0], -std::numeric_limits<double>::infinity())};
  }));
  cases.push_back(make_case("flip", {Shape{33, 64}}, [](Graph& g, const Values& x) {
    return Values{add(g, flip(g, x[0], 0), flip(g, x[0], 1))};
  }));
}

inline void add_transposes(std::vector<OpCase>& cases) {
  cases.push_back(make_case("copy of a transpose", {Shape{70, 130}}, [](Graph& g, const Values& x) {
    return Values{copy(g, transpose(g, x[0], {1, 0}))};
  }));
  cases.push_back(
      make_case("transpose in three dimensions", {Shape{3, 40, 50}, Shape{50, 3, 40}}, [](Graph& g, const Values& x) {
        return Values{mul(g, transpose(g, x[0], {2, 0, 1}), x[1])};
      }));
  cases.push_back(
      make_case("transpose and a row", {Shape{64, 96}, Shape{64}, Shape{96, 1}}, [](Graph& g, const Values& x) {
        return Values{mul(g, add(g, transpose(g, x[0], {1, 0}), x[1]), x[2])};
      }));
  cases.push_back(make_case("heads to columns", {Shape{2, 3, 40, 64}}, [](Graph& g, const Values& x) {
    return Values{copy(g, transpose(g, x[0], {0, 2, 1, 3}))};
  }));
  OpCase& update = cases.emplace_back(make_case(
      "adamw with a transposed gradient", {Shape{}, Shape{70, 90}, Shape{90, 70}, Shape{70, 90}, Shape{70, 90}},
      [](Graph& g, const Values& x) {
        return optimizer_step(
            g, {}, {.step = x[0], .parameter = x[1], .gradient = transpose(g, x[2], {1, 0}), .states = {x[3], x[4]}});
      }));
  update.low = 0.5;
  update.high = 3.0;
}

}  // namespace generator

inline std::vector<OpCase> generator_cases() {
  std::vector<OpCase> cases;
  generator::add_rows(cases);
  generator::add_reductions(cases);
  generator::add_elementwise(cases);
  generator::add_transposes(cases);
  return cases;
}

}  // namespace ridgepoint::testing
