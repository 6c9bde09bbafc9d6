// What the two forms of AdamW share: the attributes and the formula.
#pragma once

#include "ops/rule.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {

// The elements with one scale, of moments in 8-bit codes.
inline constexpr std::int64_t kMomentBlockElements = 256;
// Whether moments of this shape can be in 8-bit codes.
inline bool has_moment_blocks(const Shape& shape) {
  return shape.rank() > 0 && shape[-1] > 0 && shape[-1] % kMomentBlockElements == 0;
}

Attributes adamw_attributes(const AdamWOptions& options);
// Throws Error where one is missing.
void require_adamw_attributes(const Attributes& attributes);

struct AdamWOperands {
  Value parameter, gradient, first, second;
};
struct AdamWUpdate {
  Value parameter, first, second;
};
// The first operand of the node is the step count.
AdamWUpdate update_adamw(Graph& graph, const Node& node, const AdamWOperands& tensor);

}  // namespace ridgepoint
