// The order in which a kernel stores the dimensions of a result: by default that of the result's shape. The pass
// place_results chooses another one where readers need it, as an attribute of the node.
#pragma once

#include <optional>

#include "ir/permutation.h"
#include "ops/layout.h"

namespace ridgepoint {

// The order of result `index` of the node, outermost dimension first; nullopt for the order of its shape. In the text
// form, {result_order_0=[0,2,1,3]} stores result 0, [B,H,S,D], as [B,S,H,D]. Throws Error where the attribute is no
// permutation of `rank` axes.
std::optional<Permutation> result_order(const Node& node, std::size_t index, int rank);

// Sets or removes the order of result `index`. Returns whether it was another one.
bool set_result_order(Node& node, std::size_t index, const std::optional<Permutation>& order);

// The layout of a contiguous tensor whose dimensions are stored in this order.
TensorLayout layout_in_order(const TensorType& type, const Permutation& order);

}  // namespace ridgepoint
