// Cases of products whose epilogue is rotary embedding.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cuda/products/epilogues/fused_product_case.h"
#include "backends/cuda/products/epilogues/plans.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint::testing {

// The fused node with its operands, in a graph. Without `rest`, all columns are rotated. `adds_bias`: a bias is the
// last operand.
struct RopeCase : FusedProductCase {
  RopeCase(std::int64_t batch, std::int64_t sequence, std::int64_t heads, std::int64_t head, std::int64_t rest,
           std::int64_t inner, DType dtype = DType::bf16, bool adds_bias = false) {
    const std::int64_t tokens = batch * sequence;
    const std::int64_t columns = heads * head;
    Graph body;
    body.name = "fused_matmul_rope";
    const Value x = input(body, "0", {dtype, {tokens, inner}}, Role::data);
    const Value w = input(body, "1", {dtype, {inner, columns + rest}}, Role::data);
    const Value cosines = input(body, "2", {DType::fp32, {sequence, head / 2}}, Role::data);
    const Value sines = input(body, "3", {DType::fp32, {sequence, head / 2}}, Role::data);
    Value product = matmul(body, x, w);
    if (adds_bias) product = add(body, product, input(body, "4", {dtype, {columns + rest}}, Role::data));
    std::vector<Value> parts = {product};
    if (rest > 0) parts = split(body, product, 1, {columns, rest});
    const Value rotated = rope(body, reshape(body, parts[0], {batch, sequence, heads, head}), cosines, sines, 1);
    parts[0] = reshape(body, rotated, {tokens, columns});
    body.add_output("0", rest > 0 ? concat(body, parts, 1) : parts[0]);
    set_body(std::move(body), inner);
  }

  cuda::RopeEpilogue found() const { return *cuda::rope_of(*graph.node(node).body); }
  std::optional<cuda::RopePlan> plan() const { return cuda::RopePlan::of(found(), spec()); }
};

}  // namespace ridgepoint::testing
