// Cases of products whose epilogue is a residual sum and its norm, or the derivative of both.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "backends/cuda/products/epilogues/fused_product_case.h"
#include "backends/cuda/products/epilogues/plans.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint::testing {

// The fused node with its operands, in a graph.
struct ResidualCase : FusedProductCase {
  ResidualCase(bool backward, std::int64_t tokens, std::int64_t inner, std::int64_t columns,
               DType dtype = DType::bf16) {
    Graph body;
    body.name = "fused_matmul_residual";
    const auto data = [&](const char* name, const TensorType& type) { return input(body, name, type, Role::data); };
    const auto number = [&](double value) { return constant(body, value, DType::fp32); };
    const Value a = data("0", {dtype, {tokens, inner}});
    const Value b = data("1", {dtype, {inner, columns}});
    const Value p = cast(body, matmul(body, a, b), DType::fp32);
    const Value x = data("2", {DType::fp32, {tokens, columns}});
    const Value g = data("3", {DType::fp32, {columns}});
    const Value mean = number(1.0 / static_cast<double>(columns));
    if (backward) {
      const Value r = data("4", {DType::fp32, {tokens, 1}});
      const Value residual = data("5", {DType::fp32, {tokens, columns}});
      const Value t = mul(body, p, g);
      const Value dot = mul(body, reduce_sum(body, mul(body, t, x), {-1}, true), mean);
      const Value q = mul(body, mul(body, mul(body, r, r), r), dot);
      const Value gradient = add(body, residual, sub(body, mul(body, t, r), mul(body, x, q)));
      const Value of_columns = reduce_sum(body, mul(body, p, mul(body, x, r)), {0}, true);
      body.add_output("0", reshape(body, of_columns, {columns}));
      body.add_output("1", gradient);
      body.add_output("2", cast(body, gradient, dtype));
    } else {
      const Value sum = add(body, x, p);
      const Value squares = mul(body, reduce_sum(body, mul(body, sum, sum), {-1}, true), mean);
      const Value r = make_value(body, Op::rsqrt, {{add(body, squares, number(1e-5))}});
      body.add_output("0", sum);
      body.add_output("1", r);
      body.add_output("2", cast(body, mul(body, mul(body, sum, r), g), dtype));
    }
    set_body(std::move(body), backward ? 0 : inner);
  }

  cuda::ResidualEpilogue found() const { return *cuda::residual_of(*graph.node(node).body); }
  std::optional<cuda::ResidualPlan> plan() const { return cuda::ResidualPlan::of(found(), spec()); }
};

}  // namespace ridgepoint::testing
