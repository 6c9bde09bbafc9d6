// Finds attention that is written in primitive ops:  cast(softmax(scale q k^T [masked])) v.
#pragma once

#include <optional>
#include <vector>

#include "ir/permutation.h"
#include "ir/queries.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {

// transpose(base, permutation) * factor, rounded to `dtype` at some point
struct ScaledTranspose {
  Value base;
  DType dtype = DType::fp32;
  Permutation permutation;
  double factor = 1.0;
};

struct AttentionPattern {
  ScaledTranspose q;          // [...,S,D]
  ScaledTranspose keys;       // [...,D,K], the transposed keys
  ScaledTranspose v;          // [...,K,D]
  AttentionForm form;         // its scale includes the factors of q and keys; it is positive and finite
  std::vector<NodeId> nodes;  // from the last matmul to the first; only nodes of the pattern read their values
};

// The attention that ends in the matmul `last_product`; nullopt unless the attention op computes the same function from
// the same operands. It requires: a softmax over keys that subtracts the row maximum, in the type that the op uses for
// scores; a constant scale; a soft cap or none; no mask, or a causal mask of -inf with a window or without; one head
// size. Keys and values that several heads share must be repeated as KeyHeads (ops/attention_form.h) repeats them.
// Casts to the type of the operands may round operands and scores, as autocast inserts them; the op does not round the
// scores.
std::optional<AttentionPattern> find_attention(const Graph& graph, const Readers& readers, NodeId last_product);

}  // namespace ridgepoint
