// The keys that a query attends to, where an indexer chooses them: small heads of its own score all keys, and the best
// ones are kept, one by one (DeepSeek sparse attention, arXiv:2512.02556) or in blocks (MiniMax M3). The choice has no
// derivative, so the parameters of an indexer are frozen.
#pragma once

#include <cstdint>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

struct KeySelection {
  std::int64_t heads = 0;  // of the indexer, which share a head of keys; 0: a query attends to all keys before it
  std::int64_t head_size = 0;
  std::int64_t rotated = 0;  // the first elements of a head
  std::int64_t kept = 0;     // keys of a query, or blocks
  // The keys of a block. Its score is that of its best key, and each head of the indexer chooses for a head of keys of
  // attention. The indexer's queries and keys have RMS norms. 0: keys are chosen one by one. The score of a key is the
  // sum, over heads, of ReLU of a product times a weight of query and head. The indexer's keys have a layer norm.
  std::int64_t block = 0;
  std::int64_t local = 0;  // blocks that are kept always: the query's own, and those before it
  // Which layers have an indexer: layer i has entry i modulo the size. Empty: all.
  std::vector<bool> layers = {};
  bool others_share = false;  // the other layers attend to what the last indexer has chosen; otherwise to everything

  bool has_indexer(std::int64_t layer) const {
    return heads > 0 && (layers.empty() || layers[static_cast<std::size_t>(layer) % layers.size()]);
  }
  // Whether every query keeps every key of a context.
  bool keeps_all(std::int64_t context) const { return context <= kept * (block > 0 ? block : 1); }

  bool operator==(const KeySelection&) const = default;
};

// The parameters of one indexer. `low_rank` is the width of what its queries are projected from.
std::int64_t indexer_parameters(const KeySelection& selection, std::int64_t d_model, std::int64_t low_rank);

// What an indexer reads: the input of attention [T,D], what its queries are projected from [T,R], the tables of rotary
// embedding, and the RMS norms' epsilon and whether they multiply by 1 + weight.
struct IndexerInputs {
  Value x, low;
  Value cosines, sines;
  Dim batch, sequence;
  double norm_epsilon = 1e-6;
  bool norm_adds_one = false;
};

// [B,1,S,K], with blocks [B,heads,S,K]: 1 for the keys that an indexer chooses for each query, 0 for others. Keys after
// the query may have either number. No value where every key is kept: the parameters are declared, and nothing reads
// them. They stand under the current scope: queries.weight [H d,R], keys.weight [d,D] and, with blocks,
// queries_norm.weight and keys_norm.weight [d]; without, keys_norm.weight and keys_norm.bias [d] and
// head_weights.weight [H,D].
Value build_key_selection(Graph& graph, const KeySelection& selection, const IndexerInputs& inputs);

}  // namespace ridgepoint
