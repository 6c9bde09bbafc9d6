#include "support/graphs/op_cases/cases.h"

namespace ridgepoint::testing {

// The inputs of int64 are the choices of experts, [T,k].
void add_experts(OpCases& cases) {
  constexpr std::int64_t kExperts = 5;
  for (const Shape& shape : {Shape{3, 7}, Shape{3}, Shape{2, 3, 40}, Shape{600, 3}}) {
    cases.add_case(Op::top_k, OpCases::shape_name(shape),
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
    OpCase& made = cases.add_case(Op::expert_order, OpCases::shape_name(choices),
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

}  // namespace ridgepoint::testing
