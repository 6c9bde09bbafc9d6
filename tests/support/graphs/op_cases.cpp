#include "support/graphs/op_cases.h"

#include <utility>

#include "support/graphs/op_cases/cases.h"

namespace ridgepoint::testing {

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> all = [] {
    OpCases cases;
    add_views(cases);
    add_elementwise(cases);
    for (const Op op : {Op::reduce_sum, Op::reduce_max}) cases.reduction(op);
    add_contractions_and_gathers(cases);
    add_experts(cases);
    add_activations_and_masks(cases);
    add_norms(cases);
    add_rope(cases);
    add_attention(cases);
    add_linear_attention(cases);
    add_cross_entropy(cases);
    add_optimizers(cases);
    add_float8(cases);
    add_fused_nodes(cases);
    return std::move(cases.all);
  }();
  return all;
}

}  // namespace ridgepoint::testing
