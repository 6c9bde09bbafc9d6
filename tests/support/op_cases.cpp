#include "support/op_cases.h"

#include <limits>

#include "ops/attention_form.h"
#include "ridgepoint/ops.h"

namespace ridgepoint::testing {
namespace {

using Values = std::vector<Value>;
using Apply = std::function<Values(Graph&, const Values&)>;

std::function<Graph(DType)> graph_of(std::vector<Shape> shapes, Apply apply, std::vector<Shape> index_shapes = {}) {
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

// A scalar in the type in which an optimizer computes.
Value computed(Graph& graph, Value scalar) {
  const DType dtype = graph.type(scalar).dtype;
  return accumulator(dtype) == dtype ? scalar : cast(graph, scalar, accumulator(dtype));
}

class Cases {
 public:
  std::vector<OpCase> all;

  OpCase& add_case(Op op, const std::string& variant, std::function<Graph(DType)> build) {
    all.push_back({op, std::string(name(op)) + (variant.empty() ? "" : "_" + variant), std::move(build)});
    return all.back();
  }

  void unary(Op op, double low, double high) {
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

  void binary(Op op, double low, double high, bool differentiable = true) {
    const std::vector<std::pair<Shape, Shape>> shapes = {{{3, 5}, {3, 5}}, {{4, 1, 17}, {3, 1}}, {{1}, {65}},
                                                         {{}, {2, 3}},     {{2, 9}, {9}},        {{6, 1}, {1, 70}}};
    for (const auto& [a, b] : shapes) {
      OpCase& made =
          add_case(op, shape_name(a) + "_" + shape_name(b), graph_of({a, b}, [op](Graph& g, const Values& x) {
                     return Values{g.node(make_node(g, op, {x[0], x[1]})).outputs[0]};
                   }));
      made.low = low;
      made.high = high;
      made.differentiable = differentiable;
    }
  }

  void reduction(Op op) {
    const std::vector<std::pair<Shape, std::vector<std::int64_t>>> variants = {
        {{4, 67}, {-1}},        {{4, 67}, {0}},     {{3, 4, 5}, {1}}, {{3, 4, 5}, {0, 2}},
        {{2, 3, 4, 5}, {1, 2}}, {{3, 130}, {0, 1}}, {{1, 5}, {0}},    {{5, 1}, {1}}};
    for (const auto& [shape, axes] : variants) {
      for (const bool keep : {false, true}) {
        std::string label = shape_name(shape) + "_over";
        for (const std::int64_t axis : axes) label += "_" + std::to_string(axis < 0 ? axis + shape.rank() : axis);
        add_case(op, label + (keep ? "_keep" : ""),
                 graph_of({shape}, [op, axes = axes, keep](Graph& g, const Values& x) {
                   return Values{g.node(make_node(g, op, {x[0]}, {{"axes", axes}, {"keep_dims", keep}})).outputs[0]};
                 }));
      }
    }
  }

  static std::string shape_name(const Shape& shape) {
    std::string text;
    for (const Dim& dim : shape.dims()) text += (text.empty() ? "" : "x") + std::to_string(dim.size);
    return text.empty() ? "scalar" : text;
  }
};

void add_views_and_state(Cases& cases) {
  cases.add_case(Op::input, "",
                 graph_of({Shape{3, 4}}, [](Graph& g, const Values& x) { return Values{mul(g, x[0], x[0])}; }));
  cases.add_case(Op::constant, "", graph_of({Shape{3, 4}}, [](Graph& g, const Values& x) {
                   return Values{mul(g, x[0], constant(g, 2.5, g.type(x[0]).dtype))};
                 }));
  cases.add_case(Op::constant, "as_output", graph_of({Shape{3}}, [](Graph& g, const Values& x) {
                   return Values{broadcast(g, constant(g, 2.5, g.type(x[0]).dtype), Shape{2, 3}), x[0]};
                 }));
  cases.add_case(Op::reshape, "split", graph_of({Shape{6, 10}}, [](Graph& g, const Values& x) {
                   return Values{exp(g, reshape(g, x[0], Shape{3, 2, 5, 2}))};
                 }));
  cases.add_case(Op::reshape, "of_transpose", graph_of({Shape{6, 10}}, [](Graph& g, const Values& x) {
                   return Values{exp(g, reshape(g, transpose(g, x[0], {1, 0}), Shape{4, 15}))};
                 }));
  cases.add_case(Op::transpose, "", graph_of({Shape{2, 3, 5}}, [](Graph& g, const Values& x) {
                   return Values{exp(g, transpose(g, x[0], {2, 0, 1}))};
                 }));
  cases.add_case(Op::flip, "", graph_of({Shape{3, 7}}, [](Graph& g, const Values& x) {
                   return Values{mul(g, x[0], flip(g, x[0], 1))};
                 }));
  cases.add_case(Op::flip, "rows", graph_of({Shape{3, 7}}, [](Graph& g, const Values& x) {
                   return Values{mul(g, x[0], flip(g, x[0], 0))};
                 }));
  cases.add_case(Op::split, "columns", graph_of({Shape{3, 7}}, [](Graph& g, const Values& x) {
                   const Values parts = split(g, x[0], 1, {2, 5});
                   return Values{exp(g, parts[1]), parts[0]};
                 }));
  cases.add_case(Op::split, "of_transpose", graph_of({Shape{9, 4}}, [](Graph& g, const Values& x) {
                   const Values parts = split(g, transpose(g, x[0], {1, 0}), -1, {4, 1, 4});
                   return Values{mul(g, parts[0], parts[2])};
                 }));
  cases.add_case(Op::concat, "", graph_of({Shape{3, 4}, Shape{3, 6}}, [](Graph& g, const Values& x) {
                   return Values{exp(g, concat(g, {neg(g, x[0]), x[1], x[0]}, 1)), x[1]};
                 }));
  cases.add_case(Op::concat, "rows", graph_of({Shape{3, 4}, Shape{2, 4}}, [](Graph& g, const Values& x) {
                   return Values{concat(g, {exp(g, x[0]), exp(g, x[1])}, 0)};
                 }));
  cases.add_case(Op::concat, "of_views", graph_of({Shape{6, 4}, Shape{4, 6}}, [](Graph& g, const Values& x) {
                   const Value first = reshape(g, transpose(g, exp(g, x[0]), {1, 0}), Shape{4, 2, 3});
                   const Value second = reshape(g, tanh(g, x[1]), Shape{4, 2, 3});
                   return Values{exp(g, concat(g, {first, second}, -1))};
                 }));
  cases.add_case(Op::concat, "within_concat", graph_of({Shape{5, 3}, Shape{5, 2}}, [](Graph& g, const Values& x) {
                   const Value inner = concat(g, {exp(g, x[0]), tanh(g, x[1])}, 1);
                   const Value sums = reduce_sum(g, x[0], {1}, true);
                   return Values{neg(g, concat(g, {sums, inner, inner}, 1))};
                 }));
  cases.add_case(Op::broadcast, "", graph_of({Shape{3, 1, 5}}, [](Graph& g, const Values& x) {
                   return Values{exp(g, broadcast(g, x[0], Shape{2, 3, 4, 5}))};
                 }));
}

void add_elementwise(Cases& cases) {
  for (const Op op : {Op::copy, Op::neg, Op::exp, Op::expm1, Op::sigmoid, Op::tanh, Op::erf})
    cases.unary(op, -2.0, 2.0);
  for (const Op op : {Op::log, Op::sqrt, Op::rsqrt}) cases.unary(op, 0.25, 4.0);
  for (const Op op : {Op::relu, Op::silu}) cases.unary(op, -3.0, 3.0);
  cases
      .add_case(
          Op::detach, "",
          graph_of({Shape{3, 4}}, [](Graph& g, const Values& x) { return Values{mul(g, x[0], detach(g, x[0]))}; }))
      .differentiable = false;
  cases.add_case(Op::cast, "to_fp32_and_back", graph_of({Shape{3, 4}}, [](Graph& g, const Values& x) {
                   const DType dtype = g.type(x[0]).dtype;
                   return Values{cast(g, cast(g, x[0], dtype == DType::fp64 ? DType::fp64 : DType::fp32), dtype)};
                 }));
  for (const Op op : {Op::add, Op::sub, Op::mul, Op::maximum, Op::minimum}) cases.binary(op, -2.0, 2.0);
  cases.binary(Op::div, 0.5, 3.0);
  for (const Op op : {Op::equal, Op::less, Op::less_equal}) cases.binary(op, -2.0, 2.0, false);
  cases.add_case(Op::where, "", graph_of({Shape{3, 5}, Shape{3, 5}, Shape{5}}, [](Graph& g, const Values& x) {
                   return Values{where(g, less(g, x[0], x[1]), x[1], x[2])};
                 }));
  cases.add_case(Op::iota, "columns", graph_of({Shape{3, 5}}, [](Graph& g, const Values& x) {
                   return Values{mul(g, x[0], iota(g, Shape{3, 5}, 1, g.type(x[0]).dtype))};
                 }));
  cases.add_case(Op::iota, "rows", graph_of({Shape{3, 5}}, [](Graph& g, const Values& x) {
                   return Values{mul(g, x[0], iota(g, Shape{3, 5}, 0, g.type(x[0]).dtype))};
                 }));
}

void add_contractions_and_gathers(Cases& cases) {
  const auto product = [](Graph& g, const Values& x) { return Values{matmul(g, x[0], x[1])}; };
  cases.add_case(Op::matmul, "plain", graph_of({Shape{5, 7}, Shape{7, 3}}, product));
  cases.add_case(Op::matmul, "batched", graph_of({Shape{2, 3, 5, 7}, Shape{2, 3, 7, 9}}, product));
  cases.add_case(Op::matmul, "row", graph_of({Shape{1, 17}, Shape{17, 33}}, product));
  cases.add_case(Op::matmul, "column", graph_of({Shape{33, 17}, Shape{17, 1}}, product));
  cases.add_case(Op::matmul, "outer", graph_of({Shape{4, 1}, Shape{1, 6}}, product));
  const auto unrounded = [](Graph& g, const Values& x) {
    const std::string result(name(accumulator(g.type(x[0]).dtype)));
    return g.node(make_node(g, Op::matmul, {x[0], x[1]}, {{"result", result}})).outputs;
  };
  cases.add_case(Op::matmul, "unrounded", graph_of({Shape{24, 40}, Shape{40, 16}}, unrounded));
  cases.add_case(Op::matmul, "unrounded_batch", graph_of({Shape{2, 3, 5, 7}, Shape{2, 3, 7, 9}}, unrounded));
  cases.add_case(Op::matmul, "of_parts", graph_of({Shape{5, 48}, Shape{24, 9}}, [](Graph& g, const Values& x) {
                   const Values parts = split(g, x[0], 1, {8, 24, 16});
                   return Values{matmul(g, parts[1], x[1])};
                 }));
  cases.add_case(Op::matmul, "transposed_left", graph_of({Shape{7, 5}, Shape{7, 3}}, [](Graph& g, const Values& x) {
                   return Values{matmul(g, transpose(g, x[0], {1, 0}), x[1])};
                 }));
  cases.add_case(Op::matmul, "transposed_both", graph_of({Shape{7, 5}, Shape{3, 7}}, [](Graph& g, const Values& x) {
                   return Values{matmul(g, transpose(g, x[0], {1, 0}), transpose(g, x[1], {1, 0}))};
                 }));
  cases.add_case(Op::matmul, "heads_of_a_projection",
                 graph_of({Shape{2, 6, 3, 4}, Shape{2, 6, 3, 4}}, [](Graph& g, const Values& x) {
                   return Values{matmul(g, transpose(g, x[0], {0, 2, 1, 3}), transpose(g, x[1], {0, 2, 3, 1}))};
                 }));
  cases.add_case(Op::matmul, "broadcast_batch",
                 graph_of({Shape{1, 4, 5}, Shape{3, 5, 2}}, [](Graph& g, const Values& x) {
                   return Values{matmul(g, broadcast(g, x[0], Shape{3, 4, 5}), x[1])};
                 }));
  const auto product_and_sum = [](Graph& g, const Values& x) {
    const DType wide = accumulator(g.type(x[0]).dtype);
    return Values{matmul_add(g, x[0], x[1], g.type(x[2]).dtype == wide ? x[2] : cast(g, x[2], wide))};
  };
  cases.add_case(Op::matmul_add, "plain", graph_of({Shape{24, 40}, Shape{40, 16}, Shape{24, 16}}, product_and_sum));
  cases.add_case(Op::matmul_add, "batched",
                 graph_of({Shape{2, 5, 7}, Shape{2, 7, 9}, Shape{2, 5, 9}}, product_and_sum));
  cases.add_case(Op::matmul_add, "transposed_left",
                 graph_of({Shape{7, 5}, Shape{7, 3}, Shape{5, 3}}, [=](Graph& g, const Values& x) {
                   return product_and_sum(g, {transpose(g, x[0], {1, 0}), x[1], x[2]});
                 }));
  cases
      .add_case(Op::embedding, "",
                graph_of({Shape{11, 5}}, [](Graph& g, const Values& x) { return Values{embedding(g, x[0], x[1])}; },
                         {Shape{4, 3}}))
      .index_bound = 11;
  cases
      .add_case(Op::embedding_backward, "",
                graph_of({Shape{4, 3, 5}},
                         [](Graph& g, const Values& x) { return Values{embedding_backward(g, x[0], x[1], 6)}; },
                         {Shape{4, 3}}))
      .index_bound = 6;
  cases
      .add_case(Op::embedding_backward_add, "",
                graph_of({Shape{4, 3, 5}, Shape{6, 5}},
                         [](Graph& g, const Values& x) { return Values{embedding_backward_add(g, x[0], x[2], x[1])}; },
                         {Shape{4, 3}}))
      .index_bound = 6;
}

// The inputs of int64 are the choices of experts, [T,k].
void add_experts(Cases& cases) {
  constexpr std::int64_t kExperts = 5;
  for (const Shape& shape : {Shape{3, 7}, Shape{3}, Shape{2, 3, 40}, Shape{600, 3}}) {
    cases.add_case(Op::top_k, Cases::shape_name(shape),
                   graph_of({shape}, [](Graph& g, const Values& x) { return Values{top_k(g, x[0], 3).first}; }));
  }
  cases
      .add_case(Op::top_k, "both_results",
                graph_of({Shape{4, 70}},
                         [](Graph& g, const Values& x) {
                           const auto [values, indices] = top_k(g, x[0], 70);
                           return Values{values, indices};
                         }))
      .differentiable = false;
  cases
      .add_case(
          Op::top_k_backward, "",
          graph_of({Shape{4, 3}, Shape{4, 9}},
                   [](Graph& g, const Values& x) {
                     const Value indices = top_k(g, x[1], 3).second;
                     return Values{make_value(g, Op::top_k_backward, {x[0], indices}, {{"size", std::int64_t{9}}})};
                   }))
      .differentiable = false;
  for (const Shape& choices : {Shape{7, 2}, Shape{1, 1}, Shape{3000, 3}}) {
    OpCase& made = cases.add_case(Op::expert_order, Cases::shape_name(choices),
                                  graph_of({},
                                           [](Graph& g, const Values& x) {
                                             const ExpertOrder order = expert_order(g, x[0], kExperts);
                                             return Values{order.order, order.rows, order.offsets};
                                           },
                                           {choices}));
    made.index_bound = kExperts;
    made.differentiable = false;
  }
  for (const bool transposed : {false, true}) {
    const Shape weights = transposed ? Shape{kExperts, 70, 9} : Shape{kExperts, 9, 70};
    cases
        .add_case(Op::grouped_matmul, transposed ? "transposed" : "plain",
                  graph_of({Shape{14, 9}, weights},
                           [=](Graph& g, const Values& x) {
                             const Value offsets = expert_order(g, x[2], kExperts).offsets;
                             return Values{grouped_matmul(g, x[0], x[1], offsets, transposed)};
                           },
                           {Shape{7, 2}}))
        .index_bound = kExperts - 1;  // the last one has no rows
  }
  cases
      .add_case(Op::grouped_matmul, "rows_of_no_expert",
                graph_of({Shape{20, 9}, Shape{kExperts, 9, 4}},
                         [](Graph& g, const Values& x) {
                           const Value offsets = expert_order(g, x[2], kExperts).offsets;
                           return Values{grouped_matmul(g, x[0], x[1], offsets, false)};
                         },
                         {Shape{7, 2}}))
      .index_bound = kExperts;
  cases
      .add_case(Op::grouped_matmul_weights, "",
                graph_of({Shape{14, 9}, Shape{14, 70}},
                         [](Graph& g, const Values& x) {
                           const Value offsets = expert_order(g, x[2], kExperts).offsets;
                           return Values{grouped_matmul_weights(g, x[0], x[1], offsets)};
                         },
                         {Shape{7, 2}}))
      .index_bound = kExperts - 1;
}

void add_composites(Cases& cases) {
  cases.add_case(Op::silu_backward, "", graph_of({Shape{3, 37}, Shape{3, 37}}, [](Graph& g, const Values& x) {
                   return Values{g.node(make_node(g, Op::silu_backward, {x[0], x[1]})).outputs[0]};
                 }));
  cases.add_case(Op::causal_mask, "square", graph_of({Shape{2, 5, 5}}, [](Graph& g, const Values& x) {
                   return Values{causal_mask(g, x[0], 0.0)};
                 }));
  for (const bool by_tanh : {false, true}) {
    const std::string suffix = by_tanh ? "by_tanh" : "";
    cases.add_case(Op::gelu, suffix, graph_of({Shape{3, 37}}, [by_tanh](Graph& g, const Values& x) {
                     return Values{gelu(g, scale(g, x[0], 3.0), by_tanh)};
                   }));
    cases.add_case(Op::gelu_backward, suffix,
                   graph_of({Shape{3, 37}, Shape{3, 37}}, [by_tanh](Graph& g, const Values& x) {
                     return g.node(make_node(g, Op::gelu_backward, {x[0], x[1]}, {{"tanh", by_tanh}})).outputs;
                   }));
  }
  cases.add_case(Op::soft_cap, "",
                 graph_of({Shape{3, 37}}, [](Graph& g, const Values& x) { return Values{soft_cap(g, x[0], 0.75)}; }));
  cases.add_case(Op::soft_cap_backward, "", graph_of({Shape{3, 37}, Shape{3, 37}}, [](Graph& g, const Values& x) {
                   return g.node(make_node(g, Op::soft_cap_backward, {x[0], x[1]}, {{"cap", 4.0}})).outputs;
                 }));
  cases.add_case(Op::causal_mask, "window", graph_of({Shape{2, 7, 9}}, [](Graph& g, const Values& x) {
                   return Values{causal_mask(g, x[0], -1.0, 3)};
                 }));
  cases.add_case(Op::causal_mask, "more_keys", graph_of({Shape{3, 2, 4, 9}}, [](Graph& g, const Values& x) {
                   return Values{causal_mask(g, x[0], -1.0)};
                 }));
  cases.add_case(Op::causal_mask, "softmaxed", graph_of({Shape{2, 17, 17}}, [](Graph& g, const Values& x) {
                   return Values{softmax(g, causal_mask(g, x[0], -std::numeric_limits<double>::infinity()))};
                 }));
  for (const Shape& shape : {Shape{3, 67}, Shape{2, 3, 1}, Shape{5}, Shape{2, 600}}) {
    cases.add_case(Op::softmax, Cases::shape_name(shape),
                   graph_of({shape}, [](Graph& g, const Values& x) { return Values{softmax(g, x[0])}; }));
  }
  cases.add_case(Op::softmax_backward, "", graph_of({Shape{3, 67}, Shape{3, 67}}, [](Graph& g, const Values& x) {
                   return Values{g.node(make_node(g, Op::softmax_backward, {x[0], x[1]})).outputs[0]};
                 }));
  for (const Shape& shape : {Shape{3, 67}, Shape{2, 5, 1}, Shape{9}, Shape{3, 600}}) {
    cases.add_case(Op::rms_norm, Cases::shape_name(shape),
                   graph_of({shape, Shape{shape[-1]}},
                            [](Graph& g, const Values& x) { return Values{rms_norm(g, x[0], x[1], 1e-5).first}; }));
  }
  cases.add_case(Op::rms_norm, "both_results", graph_of({Shape{3, 7}, Shape{7}}, [](Graph& g, const Values& x) {
                   const auto [y, r] = rms_norm(g, x[0], x[1], 1e-5);
                   return Values{y, r};
                 }));
  cases.add_case(Op::rms_norm_backward, "",
                 graph_of({Shape{4, 3, 19}, Shape{4, 3, 19}, Shape{19}, Shape{4, 3, 1}}, [](Graph& g, const Values& x) {
                   const Node& made = g.node(make_node(g, Op::rms_norm_backward, {x[0], x[1], x[2], x[3]}));
                   return Values{made.outputs[0], made.outputs[1]};
                 }));
  const auto normalise = [](Graph& g, const Values& x) { return Values{layer_norm(g, x[0], x[1], x[2], 1e-5)[0]}; };
  for (const Shape& shape : {Shape{3, 67}, Shape{2, 5, 4}, Shape{9}, Shape{3, 600}}) {
    cases.add_case(Op::layer_norm, Cases::shape_name(shape),
                   graph_of({shape, Shape{shape[-1]}, Shape{shape[-1]}}, normalise));
  }
  cases.add_case(Op::layer_norm, "all_results",
                 graph_of({Shape{3, 7}, Shape{7}, Shape{7}}, [](Graph& g, const Values& x) {
                   const std::array<Value, 3> made = layer_norm(g, x[0], x[1], x[2], 1e-5);
                   return Values{made.begin(), made.end()};
                 }));
  cases.add_case(
      Op::layer_norm_backward, "",
      graph_of({Shape{4, 3, 19}, Shape{4, 3, 19}, Shape{19}, Shape{4, 3, 1}, Shape{4, 3, 1}},
               [](Graph& g, const Values& x) { return g.node(make_node(g, Op::layer_norm_backward, x)).outputs; }));
  for (const Shape& shape : {Shape{3, 67}, Shape{1}, Shape{2, 3, 4, 5}, Shape{5000}}) {
    cases
        .add_case(Op::nonfinite, Cases::shape_name(shape),
                  graph_of({shape}, [](Graph& g, const Values& x) { return Values{nonfinite(g, x[0])}; }))
        .differentiable = false;
  }
  for (const bool inverse : {false, true}) {
    const std::string suffix = inverse ? "_inverse" : "";
    cases
        .add_case(Op::rope, "by_sequence" + suffix,
                  graph_of({Shape{2, 5, 3, 8}, Shape{5, 4}, Shape{5, 4}},
                           [inverse](Graph& g, const Values& x) {
                             return Values{rope(g, x[0], detach(g, x[1]), detach(g, x[2]), 1, inverse)};
                           }))
        .differentiable = false;
  }
  cases.add_case(Op::rope, "of_transpose",
                 graph_of({Shape{2, 3, 5, 8}, Shape{5, 4}, Shape{5, 4}}, [](Graph& g, const Values& x) {
                   return Values{rope(g, transpose(g, x[0], {0, 2, 1, 3}), x[1], x[2], 1)};
                 }));
  cases.add_case(Op::rope, "short_pairs",
                 graph_of({Shape{7, 2}, Shape{7, 1}, Shape{7, 1}},
                          [](Graph& g, const Values& x) { return Values{rope(g, x[0], x[1], x[2], 0, true)}; }));
  for (const bool causal : {false, true}) {
    const std::string suffix = causal ? "_causal" : "";
    cases.add_case(
        Op::attention, "heads" + suffix,
        graph_of({Shape{2, 3, 9, 8}, Shape{2, 3, 9, 8}, Shape{2, 3, 9, 8}}, [causal](Graph& g, const Values& x) {
          return Values{attention(g, x[0], x[1], x[2], {0.35, causal}).first};
        }));
    cases.add_case(
        Op::attention_backward, "heads" + suffix,
        graph_of({Shape{2, 9, 8}, Shape{2, 9, 8}, Shape{2, 9, 8}, Shape{2, 9, 8}}, [causal](Graph& g, const Values& x) {
          const auto [o, lse] = attention(g, x[1], x[2], x[3], {0.35, causal});
          const Node& made = g.node(make_node(g, Op::attention_backward, {x[0], x[1], x[2], x[3], o, lse},
                                              {{"causal", causal}, {"scale", 0.35}}));
          return Values{made.outputs[0], made.outputs[1], made.outputs[2]};
        }));
  }
  struct Form {
    std::string name;
    Shape queries, keys;
    AttentionForm form;
  };
  const Form forms[] = {
      {"grouped", Shape{2, 6, 9, 8}, Shape{2, 2, 9, 8}, {0.35, true}},
      {"one_key_head", Shape{4, 9, 8}, Shape{1, 21, 8}, {0.35}},
      {"window", Shape{2, 2, 21, 8}, Shape{2, 2, 21, 8}, {.scale = 0.35, .causal = true, .window = 4}},
      {"soft_cap", Shape{3, 9, 8}, Shape{3, 9, 8}, {.scale = 0.5, .soft_cap = 0.8}},
      {"all", Shape{4, 13, 8}, Shape{2, 13, 8}, {.scale = 0.5, .causal = true, .window = 6, .soft_cap = 0.8}}};
  for (const auto& [form_name, queries, keys, form] : forms) {
    cases.add_case(Op::attention, form_name, graph_of({queries, keys, keys}, [form = form](Graph& g, const Values& x) {
                     return Values{attention(g, x[0], x[1], x[2], form).first};
                   }));
    cases.add_case(
        Op::attention_backward, form_name,
        graph_of({queries, queries, keys, keys}, [form = form](Graph& g, const Values& x) {
          const auto [o, lse] = attention(g, x[1], x[2], x[3], form);
          return g.node(make_node(g, Op::attention_backward, {x[0], x[1], x[2], x[3], o, lse}, attributes_of(form)))
              .outputs;
        }));
  }
  cases.add_case(Op::attention, "more_keys_and_both_results",
                 graph_of({Shape{5, 16}, Shape{70, 16}, Shape{70, 16}}, [](Graph& g, const Values& x) {
                   const auto [o, lse] = attention(g, x[0], x[1], x[2], {0.25});
                   return Values{o, lse};
                 }));
  cases
      .add_case(
          Op::cross_entropy, "",
          graph_of({Shape{6, 37}}, [](Graph& g, const Values& x) { return Values{cross_entropy(g, x[0], x[1]).first}; },
                   {Shape{6}}))
      .index_bound = 37;
  cases
      .add_case(Op::cross_entropy, "both_results",
                graph_of({Shape{6, 700}},
                         [](Graph& g, const Values& x) {
                           const auto [loss, lse] = cross_entropy(g, x[0], x[1]);
                           return Values{loss, lse};
                         },
                         {Shape{6}}))
      .index_bound = 700;
  cases
      .add_case(Op::cross_entropy_backward, "",
                graph_of({Shape{6}, Shape{6, 37}, Shape{6}},
                         [](Graph& g, const Values& x) {
                           const DType wide = accumulator(g.type(x[1]).dtype);
                           const auto widened = [&](Value row) {
                             return g.type(row).dtype == wide ? row : cast(g, row, wide);
                           };
                           return Values{g.node(make_node(g, Op::cross_entropy_backward,
                                                          {widened(x[0]), x[1], x[3], widened(x[2])}))
                                             .outputs[0]};
                         },
                         {Shape{6}}))
      .index_bound = 37;
  for (const Shape& shape : {Shape{3, 5}, Shape{1}, Shape{1000}}) {
    OpCase& made = cases.add_case(Op::adamw, Cases::shape_name(shape),
                                  graph_of({Shape{}, shape, shape, shape, shape}, [](Graph& g, const Values& x) {
                                    const Value step = computed(g, x[0]);
                                    const std::array<Value, 3> updated = adamw(g, step, x[1], x[2], x[3], x[4], {});
                                    return Values{updated[0], updated[1], updated[2]};
                                  }));
    made.low = 0.5;
    made.high = 3.0;
    made.differentiable = false;
  }
  for (const double skip : {0.0, 1.0}) {
    OpCase& made = cases.add_case(
        Op::adamw, skip == 0.0 ? "guarded" : "skipped",
        graph_of({Shape{}, Shape{}, Shape{7}, Shape{7}, Shape{7}, Shape{7}}, [skip](Graph& g, const Values& x) {
          const Value step = computed(g, x[0]);
          const UpdateGuard guard{computed(g, x[1]), scale(g, step, skip)};
          const std::array<Value, 3> updated = guarded_adamw(g, step, guard, x[2], x[3], x[4], x[5], {});
          return Values{updated[0], updated[1], updated[2]};
        }));
    made.low = 0.5;
    made.high = 3.0;
    made.differentiable = false;
  }
}

void add_quantised_adamw(Cases& cases) {
  for (const Shape& shape : {Shape{256}, Shape{3, 512}, Shape{2, 2, 256}}) {
    Shape scales = with_size(shape, shape.rank() - 1, shape[-1] / 256);
    OpCase& made = cases.add_case(
        Op::adamw_8bit, Cases::shape_name(shape),
        graph_of({Shape{}, shape, shape, shape, scales, shape, scales}, [](Graph& g, const Values& x) {
          const auto fp32 = [&](Value value) {
            return g.type(value).dtype == DType::fp32 ? value : cast(g, value, DType::fp32);
          };
          const auto share = [&](Value value, DType code) { return cast(g, scale(g, fp32(value), 0.3), code); };
          const QuantisedMoments moments{share(x[3], DType::dynamic8), fp32(x[4]), share(x[5], DType::udynamic8),
                                         fp32(x[6])};
          const auto [parameter, after] = adamw_8bit(g, fp32(x[0]), fp32(x[1]), fp32(x[2]), moments, {});
          return Values{parameter, cast(g, after.first, DType::fp32), after.first_scales,
                        cast(g, after.second, DType::fp32), after.second_scales};
        }));
    made.low = 0.5;
    made.high = 3.0;
    made.differentiable = false;
  }
}

void add_sgd(Cases& cases) {
  for (const double momentum : {0.0, 0.9}) {
    for (const Shape& shape : {Shape{3, 5}, Shape{1000}}) {
      const SgdOptions options{.learning_rate = 0.1, .momentum = momentum, .weight_decay = 0.01};
      cases
          .add_case(Op::sgd, Cases::shape_name(shape) + (momentum > 0 ? "_momentum" : ""),
                    graph_of({shape, shape, shape},
                             [options](Graph& g, const Values& x) {
                               const auto buffer = options.momentum > 0 ? std::optional(x[2]) : std::nullopt;
                               return sgd(g, x[0], x[1], buffer, options);
                             }))
          .differentiable = false;
    }
  }
  OpCase& guarded = cases.add_case(
      Op::sgd, "guarded", graph_of({Shape{}, Shape{7}, Shape{7}, Shape{7}}, [](Graph& g, const Values& x) {
        const Value factor = computed(g, x[0]);
        return sgd(g, x[1], x[2], x[3], {.momentum = 0.5}, UpdateGuard{factor, scale(g, factor, 0.0)});
      }));
  guarded.differentiable = false;
}

// Matrices in 8 bits, as every back end sees them: from fp32 in double precision.
void add_float8(Cases& cases) {
  const auto narrow = [](Graph& g, Value x) { return g.type(x).dtype == DType::fp64 ? cast(g, x, DType::fp32) : x; };
  for (const DType codes : {DType::e4m3, DType::e5m2}) {
    const std::string of(name(codes));
    OpCase& rounded = cases.add_case(
        Op::cast, "through_" + of, graph_of({Shape{7, 130}}, [=](Graph& g, const Values& x) {
          const Value wide = scale(g, x[0], 0x1p-8);
          return Values{cast(g, cast(g, x[0], codes), DType::fp32), cast(g, cast(g, wide, codes), DType::fp32)};
        }));
    rounded.low = -700;
    rounded.high = 700;
    rounded.differentiable = false;
    for (const Shape& shape : {Shape{5, 7}, Shape{48, 80}, Shape{144, 208}}) {
      cases
          .add_case(
              Op::quantise, of + "_" + Cases::shape_name(shape),
              graph_of({shape},
                       [=](Graph& g, const Values& x) {
                         const Quantised made = quantise(g, narrow(g, x[0]), codes, {.rows = true, .columns = true});
                         return Values{cast(g, made.rows, DType::fp32), cast(g, made.columns, DType::fp32), made.scale};
                       }))
          .differentiable = false;
    }
  }
  cases
      .add_case(Op::quantise, "columns_of_transpose",
                graph_of({Shape{32, 48}},
                         [=](Graph& g, const Values& x) {
                           const Value turned = transpose(g, narrow(g, x[0]), {1, 0});
                           const Quantised made = quantise(g, turned, DType::e4m3, {.rows = false, .columns = true});
                           return Values{cast(g, made.columns, DType::fp32)};
                         }))
      .differentiable = false;
  for (const auto& [left, right] : {std::pair(Shape{5, 7}, Shape{3, 7}), std::pair(Shape{48, 64}, Shape{32, 64})}) {
    cases
        .add_case(Op::scaled_matmul, Cases::shape_name(left),
                  graph_of({left, right},
                           [=](Graph& g, const Values& x) {
                             const Quantised a = quantise(g, narrow(g, x[0]), DType::e5m2, {});
                             const Quantised b = quantise(g, narrow(g, x[1]), DType::e4m3, {});
                             return Values{scaled_matmul(g, a.rows, a.scale, b.rows, b.scale, DType::fp32)};
                           }))
        .differentiable = false;
  }
}

// A residual sum, its norm by the root of the sum of squares, and the square root itself, in one node.
Values sum_and_norm(Graph& graph, const Values& x) {
  Graph body;
  body.name = "fused_add_norm";
  Values inner;
  for (std::size_t i = 0; i < x.size(); ++i)
    inner.push_back(input(body, std::to_string(i), graph.type(x[i]), Role::data));
  const Value sum = add(body, inner[0], inner[1]);
  const Value root = sqrt(body, shift(body, reduce_sum(body, mul(body, sum, sum), {-1}, true), 1.0));
  body.add_output("0", sum);
  body.add_output("1", mul(body, div(body, sum, root), inner[2]));
  body.add_output("2", root);
  return graph.node(add_fused(graph, x, std::make_shared<const FusedBody>(std::move(body)))).outputs;
}

// The sums over the rows of a product, as in the gradient of a norm's weight.
Values sum_over_rows(Graph& graph, const Values& x) {
  Graph body;
  body.name = "fused_mul_reduce_sum";
  const Value a = input(body, "0", graph.type(x[0]), Role::data);
  const Value b = input(body, "1", graph.type(x[1]), Role::data);
  const Value product = mul(body, a, b);
  body.add_output("0", product);
  body.add_output("1", reduce_sum(body, product, {0}));
  return graph.node(add_fused(graph, x, std::make_shared<const FusedBody>(std::move(body)))).outputs;
}

void add_fused_nodes(Cases& cases) {
  for (const Shape& shape : {Shape{3, 67}, Shape{2, 5, 64}, Shape{1, 1}}) {
    cases
        .add_case(Op::fused, "norm_" + Cases::shape_name(shape),
                  graph_of({shape, shape, Shape{shape[-1]}}, sum_and_norm))
        .differentiable = false;
  }
  cases.add_case(Op::fused, "rows", graph_of({Shape{37, 12}, Shape{37, 12}}, sum_over_rows)).differentiable = false;
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> all = [] {
    Cases cases;
    add_views_and_state(cases);
    add_elementwise(cases);
    for (const Op op : {Op::reduce_sum, Op::reduce_max}) cases.reduction(op);
    add_contractions_and_gathers(cases);
    add_experts(cases);
    add_composites(cases);
    add_sgd(cases);
    add_quantised_adamw(cases);
    add_float8(cases);
    add_fused_nodes(cases);
    return std::move(cases.all);
  }();
  return all;
}

}  // namespace ridgepoint::testing
