#include "support/graphs/op_cases/cases.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "ir/packed_weight.h"
#include "ir/stored_tensors.h"

namespace ridgepoint::testing {
namespace {

// A packed matrix of 130 rows as numbers.
auto widened(BaseWeights format, std::int64_t width, std::vector<std::int64_t> row_order, DType result) {
  return [=](DType) {
    constexpr std::int64_t kHeight = 130;
    Graph graph;
    const std::vector<PackedPart> parts = packed_parts(format, std::array{kHeight}, width);
    const Value weight = input(graph, "weight", {DType::packed, {packed_bytes(parts)}}, Role::parameter);
    Attributes& attributes = graph.node(graph.producer(weight)).attributes;
    attributes.set(kFormat, std::string(name(format)));
    attributes.set(kDeclaredDType, std::string(name(DType::fp32)));
    attributes.set(kDeclaredShape, std::vector<std::int64_t>{kHeight, width});
    if (!row_order.empty()) attributes.set(kRowOrder, row_order);
    const Value elements = dequantise(graph, weight, format, {kHeight}, width, result);
    if (!row_order.empty()) graph.node(graph.producer(elements)).attributes.set(kRowOrder, row_order);
    graph.add_output({"o", cast(graph, elements, DType::fp32)});
    return graph;
  };
}

}  // namespace

// Matrices in 4 and 8 bits, as every back end sees them: from fp32 in double precision.
void add_float8(OpCases& cases) {
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
              Op::quantise, of + "_" + OpCases::shape_name(shape),
              graph_of({shape},
                       [=](Graph& g, const Values& x) {
                         const Quantised made = quantise(g, narrow(g, x[0]), codes, {.rows = true, .columns = true});
                         return Values{cast(g, made.rows, DType::fp32), cast(g, made.columns, DType::fp32), made.scale};
                       }))
          .differentiable = false;
    }
  }
  // Rows of several magnitudes as codes with a scale each and with one scale.
  for (const DType codes : {DType::e4m3, DType::e5m2}) {
    for (const Shape& shape : {Shape{5, 7}, Shape{48, 80}, Shape{272, 144}}) {
      for (const Op op : {Op::quantise_rows, Op::transpose_codes}) {
        cases
            .add_case(op, std::string(name(codes)) + "_" + OpCases::shape_name(shape),
                      graph_of({shape, Shape{shape[0], 1}},
                               [=](Graph& g, const Values& x) {
                                 const Value matrix = narrow(g, x[0]);
                                 const Value factors = scale(g, narrow(g, x[1]), 0x1p-9);
                                 const QuantisedRows made = quantise_rows(g, mul(g, matrix, factors), codes);
                                 if (op == Op::quantise_rows)
                                   return Values{cast(g, made.codes, DType::fp32), made.scales};
                                 const Quantised turned = transpose_codes(g, made.codes, made.scales);
                                 return Values{cast(g, turned.columns, DType::fp32), turned.scale};
                               }))
            .differentiable = false;
      }
    }
  }
  // Codes with one scale, in the order of columns and as numbers.
  for (const DType codes : {DType::e4m3, DType::e5m2}) {
    for (const Shape& shape : {Shape{5, 7}, Shape{48, 80}, Shape{272, 144}}) {
      const std::string stem = "of_one_scale_" + std::string(name(codes)) + "_" + OpCases::shape_name(shape);
      cases
          .add_case(Op::transpose_codes, stem,
                    graph_of({shape},
                             [=](Graph& g, const Values& x) {
                               const Quantised made = quantise(g, narrow(g, x[0]), codes, {});
                               const Quantised turned = transpose_codes(g, made.rows, made.scale);
                               return Values{cast(g, turned.columns, DType::fp32), turned.scale};
                             }))
          .differentiable = false;
      cases
          .add_case(
              Op::widen_codes, stem,
              graph_of({shape},
                       [=](Graph& g, const Values& x) {
                         const Quantised made = quantise(g, narrow(g, x[0]), codes, {});
                         const Value low = widen_codes(g, made.rows, made.scale, DType::bf16);
                         return Values{widen_codes(g, made.rows, made.scale, DType::fp32), cast(g, low, DType::fp32)};
                       }))
          .differentiable = false;
    }
  }
  // Magnitudes that kernels before it found, of rows and of halves of rows.
  for (const Shape& magnitudes : {Shape{48}, Shape{48, 2}}) {
    cases
        .add_case(
            Op::quantise, "with_magnitudes_" + OpCases::shape_name(magnitudes),
            graph_of({Shape{48, 80}, magnitudes},
                     [=](Graph& g, const Values& x) {
                       const Value matrix = narrow(g, x[0]);
                       const Value found = cast(g, x[1], DType::fp32);
                       const NodeId made = make_node(g, Op::quantise, {matrix, maximum(g, found, neg(g, found))},
                                                     {{"dtype", "e4m3"}, {"layout", "both"}});
                       const Values results = g.node(made).outputs;
                       return Values{cast(g, results[0], DType::fp32), cast(g, results[1], DType::fp32), results[2]};
                     }))
        .differentiable = false;
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
        .add_case(Op::scaled_matmul, OpCases::shape_name(left),
                  graph_of({left, right},
                           [=](Graph& g, const Values& x) {
                             const Quantised a = quantise(g, narrow(g, x[0]), DType::e5m2, {});
                             const Quantised b = quantise(g, narrow(g, x[1]), DType::e4m3, {});
                             return Values{scaled_matmul(g, a.rows, a.scale, b.rows, b.scale, DType::fp32)};
                           }))
        .differentiable = false;
  }
  for (const auto& [left, right] : {std::pair(Shape{5, 7}, Shape{3, 7}), std::pair(Shape{48, 64}, Shape{32, 64})}) {
    cases
        .add_case(Op::scaled_matmul, "added_" + OpCases::shape_name(left),
                  graph_of({left, right, Shape{left[0], right[0]}},
                           [=](Graph& g, const Values& x) {
                             const Quantised a = quantise(g, narrow(g, x[0]), DType::e5m2, {});
                             const Quantised b = quantise(g, narrow(g, x[1]), DType::e4m3, {});
                             const Value addend = narrow(g, x[2]);
                             return Values{scaled_matmul(g, a.rows, a.scale, b.rows, b.scale, DType::fp32, addend)};
                           }))
        .differentiable = false;
  }
  for (const auto& [left, right] : {std::pair(Shape{5, 7}, Shape{3, 7}), std::pair(Shape{48, 64}, Shape{32, 64})}) {
    cases
        .add_case(Op::scaled_matmul, "rows_" + OpCases::shape_name(left),
                  graph_of({left, right},
                           [=](Graph& g, const Values& x) {
                             const QuantisedRows a = quantise_rows(g, narrow(g, x[0]), DType::e5m2);
                             const QuantisedRows b = quantise_rows(g, narrow(g, x[1]), DType::e4m3);
                             return Values{scaled_matmul(g, a.codes, a.scales, b.codes, b.scales, DType::fp32)};
                           }))
        .differentiable = false;
  }
  for (const BaseWeights format : {BaseWeights::nf4, BaseWeights::nf4_single, BaseWeights::int8}) {
    for (const DType result : {DType::fp32, DType::bf16, DType::fp16}) {
      std::string stem = std::string(name(format)) + "_" + std::string(name(result));
      std::ranges::replace(stem, '-', '_');  // as names of tests allow
      cases.add_case(Op::dequantise, stem, widened(format, 37, {}, result)).differentiable = false;
      // Heads of 26 rows, of which 8 behind the first 2 are turned: in rows of whole vectors, and in others.
      for (const std::int64_t width : {40, 37}) {
        cases
            .add_case(Op::dequantise, stem + "_heads_" + std::to_string(width),
                      widened(format, width, {26, 8, 2}, result))
            .differentiable = false;
      }
    }
  }
}

}  // namespace ridgepoint::testing
