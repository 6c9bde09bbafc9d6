#include "support/graphs/op_cases/cases.h"

namespace ridgepoint::testing {

void add_views(OpCases& cases) {
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

void add_elementwise(OpCases& cases) {
  for (const Op op : {Op::copy, Op::neg, Op::exp, Op::expm1, Op::sigmoid, Op::tanh, Op::erf})
    cases.unary(op, -2.0, 2.0);
  for (const Op op : {Op::log, Op::sqrt, Op::rsqrt}) cases.unary(op, 0.25, 4.0);
  for (const Op op : {Op::relu, Op::silu}) cases.unary(op, -3.0, 3.0);
  cases.unary(Op::softplus, -30.0, 30.0);
  cases
      .add_case(
          Op::detach, "",
          graph_of({Shape{3, 4}}, [](Graph& g, const Values& x) { return Values{mul(g, x[0], detach(g, x[0]))}; }))
      .differentiable = false;
  cases.add_case(Op::cast, "to_fp32_and_back", graph_of({Shape{3, 4}}, [](Graph& g, const Values& x) {
                   const DType dtype = g.type(x[0]).dtype;
                   return Values{cast(g, cast(g, x[0], dtype == DType::fp64 ? DType::fp64 : DType::fp32), dtype)};
                 }));
  const auto fp32 = [](Graph& g, Value x) { return g.type(x).dtype == DType::fp32 ? x : cast(g, x, DType::fp32); };
  for (const Shape& shape : {Shape{3, 5}, Shape{1000}}) {
    cases
        .add_case(Op::round_away, OpCases::shape_name(shape),
                  graph_of({shape}, [=](Graph& g, const Values& x) { return Values{round_away(g, fp32(g, x[0]))}; }))
        .differentiable = false;
    cases
        .add_case(Op::join_halves, OpCases::shape_name(shape),
                  graph_of({shape},
                           [=](Graph& g, const Values& x) {
                             const Value whole = scale(g, fp32(g, x[0]), 1.0 / 3);
                             const Value low = cast(g, whole, DType::low_half);
                             return Values{join_halves(g, round_away(g, whole), low)};
                           }))
        .differentiable = false;
  }
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

void add_contractions_and_gathers(OpCases& cases) {
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

}  // namespace ridgepoint::testing
