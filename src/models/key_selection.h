// The keys that a query attends to, where an indexer chooses them: small heads of its own score all keys, and the best
// ones are kept, one by one (DeepSeek sparse attention, arXiv:2512.02556) or in blocks (MiniMax M3). The choice has no
// derivative, so the parameters of an indexer are frozen.
#pragma once

#include <cstdint>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

struct KeySelection {
  std::int64_t heads = 0;  // of the indexer, which share a head of keys; 0: a query attends to all keys before it
  std::int64_t head_size = 0;
  std::int64_t rotated = 0;  // the first elements of a head
  std::int64_t kept = 0;     // keys of a query, or blocks
  // Keys of a block. A block's score is that of its best key, each head of keys has the blocks of a head of the
  // indexer, and the indexer's queries and keys have RMS norms. 0: keys are chosen one by one, by the sum over heads of
  // what is positive of a score times a weight of the query and the head; the indexer's keys have a layer norm.
  std::int64_t block = 0;
  std::int64_t local = 0;  // blocks that are kept always: the query's own, and those before it
  // Which layers have an indexer: layer i has entry i modulo the size. Empty: all. The others attend to what the one
  // before them has chosen, or to everything.
  std::vector<bool> layers = {};
  bool others_share = false;

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

// 1 for the keys that each query attends to and 0 for others, [B,heads,S,K] with one head or one for each of keys; of
// keys after the query's own either. No value where every key is kept; the parameters are declared anyway. They are,
// under the current scope: queries.weight [H d,R], keys.weight [d,D] and, with blocks, queries_norm.weight and
// keys_norm.weight [d]; without, keys_norm.weight and keys_norm.bias [d] and head_weights.weight [H,D].
Value build_key_selection(Graph& graph, const KeySelection& selection, const IndexerInputs& inputs);

}  // namespace ridgepoint
