// Recognises rotary embedding of a product in the body of a fused node.
#pragma once

#include <cstdint>
#include <optional>

#include "ridgepoint/graph.h"

namespace ridgepoint::cuda {

// z [T,N] = x w, whose first `columns` columns are heads that are rotated, and the others as they are. Row t is at
// position t % sequence. Operands are x, w, cosines and sines.
struct RopeNode {
  std::int64_t tokens = 0, features = 0, inner = 0;  // T, N and the length of the sums
  std::int64_t sequence = 0, head = 0, columns = 0;
};

// Nullopt for any other body, and for matrices of several dtypes.
std::optional<RopeNode> rope_of(const FusedBody& body);

}  // namespace ridgepoint::cuda
