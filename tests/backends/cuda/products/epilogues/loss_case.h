// Cases of products whose epilogue is cross-entropy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/products/epilogues/fused_product_case.h"
#include "backends/cuda/products/epilogues/plans.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint::testing {

// A fused node of a product and its cross-entropy with operands, in a graph: logits, losses and log-sum-exps are its
// results, or the losses alone. Rows of logits are padded where those of a run are.
struct LossCase : FusedProductCase {
  LossCase(bool keeps, std::int64_t tokens, std::int64_t inner, std::int64_t vocabulary, DType dtype = DType::bf16,
           double z_loss = 0) {
    Graph body;
    body.name = "fused_matmul_cross_entropy";
    const Value x = input(body, "0", {dtype, {tokens, inner}}, Role::data);
    const Value w = input(body, "1", {dtype, {inner, vocabulary}}, Role::data);
    const Value targets = input(body, "2", {DType::int64, {tokens}}, Role::data);
    const Value logits = matmul(body, x, w);
    const auto [losses, log_sum_exps] = cross_entropy(body, logits, targets);
    if (z_loss != 0) body.node(body.producer(losses)).attributes.set("z_loss", z_loss);
    if (keeps) body.add_output("0", logits);
    body.add_output(keeps ? "1" : "0", losses);
    if (keeps) body.add_output("2", log_sum_exps);
    set_body(std::move(body), inner);
    if (!keeps) return;
    const TensorType type = graph.type(graph.node(node).outputs[0]);
    if (const auto row = padded_row(type)) results[0] = layout_with_rows(type, *row);
  }

  std::optional<cuda::CrossEntropyPlan> plan() const {
    return cuda::CrossEntropyPlan::of(*cuda::cross_entropy_of(*graph.node(node).body), spec());
  }
};

}  // namespace ridgepoint::testing
