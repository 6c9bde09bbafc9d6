#include "support/graphs/op_cases/cases.h"

#include <array>
#include <limits>

namespace ridgepoint::testing {

void add_activations_and_masks(OpCases& cases) {
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
  for (const bool reversed : {false, true}) {
    for (const auto& [x_shape, width] : {std::pair{Shape{2, 9, 24}, 4}, {Shape{3, 8}, 5}, {Shape{7, 3}, 1}}) {
      cases.add_case(Op::causal_convolution, OpCases::shape_name(x_shape) + (reversed ? "_reversed" : ""),
                     graph_of({x_shape, Shape{x_shape[-1], width}}, [reversed](Graph& g, const Values& x) {
                       return Values{silu(g, causal_convolution(g, x[0], x[1], reversed))};
                     }));
    }
  }
  cases.add_case(Op::causal_convolution, "with_bias",
                 graph_of({Shape{2, 9, 24}, Shape{24, 3}, Shape{24}}, [](Graph& g, const Values& x) {
                   return Values{make_value(g, Op::causal_convolution, x, {{"reversed", false}})};
                 }));
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
    cases.add_case(Op::softmax, OpCases::shape_name(shape),
                   graph_of({shape}, [](Graph& g, const Values& x) { return Values{softmax(g, x[0])}; }));
  }
  cases.add_case(Op::softmax_backward, "", graph_of({Shape{3, 67}, Shape{3, 67}}, [](Graph& g, const Values& x) {
                   return Values{g.node(make_node(g, Op::softmax_backward, {x[0], x[1]})).outputs[0]};
                 }));
}

void add_norms(OpCases& cases) {
  for (const Shape& shape : {Shape{3, 67}, Shape{2, 5, 1}, Shape{9}, Shape{3, 600}}) {
    cases.add_case(Op::rms_norm, OpCases::shape_name(shape),
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
    cases.add_case(Op::layer_norm, OpCases::shape_name(shape),
                   graph_of({shape, Shape{shape[-1]}, Shape{shape[-1]}}, normalise));
  }
  cases.add_case(Op::layer_norm, "all_results",
                 graph_of({Shape{3, 7}, Shape{7}, Shape{7}}, [](Graph& g, const Values& x) {
                   const std::array<Value, 3> made = layer_norm(g, x[0], x[1], x[2], 1e-5);
                   return Values{made.begin(), made.end()};
                 }));
  for (const auto& [name, saved] : {std::pair{"with_mean", std::size_t{1}}, {"with_reciprocal", std::size_t{2}}}) {
    cases.add_case(Op::layer_norm, name,
                   graph_of({Shape{3, 7}, Shape{7}, Shape{7}}, [saved = saved](Graph& g, const Values& x) {
                     const std::array<Value, 3> made = layer_norm(g, x[0], x[1], x[2], 1e-5);
                     return Values{made[0], made[saved]};
                   }));
  }
  cases.add_case(
      Op::layer_norm_backward, "",
      graph_of({Shape{4, 3, 19}, Shape{4, 3, 19}, Shape{19}, Shape{4, 3, 1}, Shape{4, 3, 1}},
               [](Graph& g, const Values& x) { return g.node(make_node(g, Op::layer_norm_backward, x)).outputs; }));
  for (const Shape& shape : {Shape{3, 67}, Shape{1}, Shape{2, 3, 4, 5}, Shape{5000}}) {
    cases
        .add_case(Op::nonfinite, OpCases::shape_name(shape),
                  graph_of({shape}, [](Graph& g, const Values& x) { return Values{nonfinite(g, x[0])}; }))
        .differentiable = false;
    cases.add_case(Op::sum_of_squares, OpCases::shape_name(shape),
                   graph_of({shape}, [](Graph& g, const Values& x) { return Values{sum_of_squares(g, x)}; }));
  }
  cases.add_case(Op::sum_of_squares, "of_several_tensors",
                 graph_of({Shape{3, 67}, Shape{}, Shape{20000}, Shape{2, 3, 4}},
                          [](Graph& g, const Values& x) { return Values{sum_of_squares(g, x)}; }));
  cases.add_case(Op::sum_of_squares, "of_a_transpose_beside_a_part",
                 graph_of({Shape{5, 7}, Shape{4, 8}}, [](Graph& g, const Values& x) {
                   const Values parts = split(g, x[1], 0, {1, 3});
                   return Values{sum_of_squares(g, Values{transpose(g, x[0], {1, 0}), parts[1]})};
                 }));
}

void add_cross_entropy(OpCases& cases) {
  cases
      .add_case(Op::cross_entropy, "z_loss",
                graph_of({Shape{6, 37}},
                         [](Graph& g, const Values& x) {
                           const NodeId made = make_node(g, Op::cross_entropy, {x[0], x[1]}, {{"z_loss", 0.1}});
                           return Values{g.node(made).outputs[0]};
                         },
                         {Shape{6}}))
      .index_bound = 37;
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
  for (const double z : {0.0, 0.1}) {
    cases
        .add_case(Op::cross_entropy_backward, z == 0 ? "" : "z_loss",
                  graph_of({Shape{6}, Shape{6, 37}, Shape{6}},
                           [z](Graph& g, const Values& x) {
                             const Attributes attributes = z == 0 ? Attributes() : Attributes{{"z_loss", z}};
                             const DType wide = accumulator(g.type(x[1]).dtype);
                             const auto widened = [&](Value row) {
                               return g.type(row).dtype == wide ? row : cast(g, row, wide);
                             };
                             return Values{g.node(make_node(g, Op::cross_entropy_backward,
                                                            {widened(x[0]), x[1], x[3], widened(x[2])}, attributes))
                                               .outputs[0]};
                           },
                           {Shape{6}}))
        .index_bound = 37;
  }
}

}  // namespace ridgepoint::testing
