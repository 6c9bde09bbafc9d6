#include "support/op_cases/cases.h"

#include <array>
#include <optional>

namespace ridgepoint::testing {
namespace {

// A scalar in the type in which an optimizer computes.
Value computed(Graph& graph, Value scalar) {
  const DType dtype = graph.type(scalar).dtype;
  return accumulator(dtype) == dtype ? scalar : cast(graph, scalar, accumulator(dtype));
}

}  // namespace

void add_adamw(OpCases& cases) {
  for (const Shape& shape : {Shape{3, 5}, Shape{1}, Shape{1000}}) {
    OpCase& made = cases.add_case(Op::adamw, OpCases::shape_name(shape),
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

void add_sgd(OpCases& cases) {
  for (const double momentum : {0.0, 0.9}) {
    for (const Shape& shape : {Shape{3, 5}, Shape{1000}}) {
      const SgdOptions options{.learning_rate = 0.1, .momentum = momentum, .weight_decay = 0.01};
      cases
          .add_case(Op::sgd, OpCases::shape_name(shape) + (momentum > 0 ? "_momentum" : ""),
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

void add_quantised_adamw(OpCases& cases) {
  for (const Shape& shape : {Shape{256}, Shape{3, 512}, Shape{2, 2, 256}}) {
    Shape scales = with_size(shape, shape.rank() - 1, shape[-1] / 256);
    OpCase& made = cases.add_case(
        Op::adamw_8bit, OpCases::shape_name(shape),
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

}  // namespace ridgepoint::testing
