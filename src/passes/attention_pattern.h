// Attention written in plain ops:  cast(softmax(scale q k^T [masked])) v,  found from its last product backwards.
#pragma once

#include <optional>
#include <vector>

#include "ir/permutation.h"
#include "ir/queries.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// transpose(base, permutation) * factor, rounded to `dtype` somewhere between
struct ScaledTranspose {
  Value base;
  DType dtype = DType::fp32;
  Permutation permutation;
  double factor = 1.0;
};

struct AttentionPattern {
  ScaledTranspose q;     // [...,S,D]
  ScaledTranspose keys;  // [...,D,K], the rows of its base's keys turned into columns
  Value v;               // [...,K,D]
  double scale = 1.0;    // of the scores, the factors of q and keys included; positive and finite
  bool causal = false;
  std::vector<NodeId> nodes;  // last product first, the first product among them; nothing else reads what they make
};

// Nullopt unless the attention op computes the same function from the same operands: a softmax over keys with its row
// maximum subtracted, in the type in which the op keeps scores; one constant scale; every key seen, or by a mask of
// -inf those up to the query alone; heads of one size, none shared between heads. Casts may round the operands and the
// scores to the type of the operands, as the autocast pass has them: the op leaves out the rounding of scores.
std::optional<AttentionPattern> find_attention(const Graph& graph, const Readers& readers, NodeId last_product);

}  // namespace ridgepoint
