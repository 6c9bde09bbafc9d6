// Recognises cross-entropy of a product in the body of a fused node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ridgepoint/graph.h"

namespace ridgepoint::cuda {

// logits [T,V] = x w, and the cross-entropy of each row with its target.
struct CrossEntropyNode {
  std::optional<std::size_t> logits;  // the results; logits and log_sum_exps are absent where nothing else reads them
  std::size_t losses = 0;
  std::optional<std::size_t> log_sum_exps;
  std::int64_t tokens = 0, vocabulary = 0, inner = 0;  // T, V and the length of the sums
};

// Operands 0, 1 and 2 are x, w and the targets. Nullopt for any other body, and for logits of another dtype than x.
std::optional<CrossEntropyNode> cross_entropy_of(const FusedBody& body);

}  // namespace ridgepoint::cuda
