// Attention of every layer of a Transformer's graph: projections, norms, rotary embeddings, kept keys, indexers.
#pragma once

#include <optional>
#include <string_view>

#include "models/graph_parts.h"

namespace ridgepoint {

class AttentionLayers : protected GraphParts {
 protected:
  using GraphParts::GraphParts;

  // The inputs that every layer reads: tables of rotary embeddings, the bias of scores by distance.
  void declare_tables();
  // The rows of a table of positions that belong to the tokens of the graph.
  Value of_tokens(Value table) { return position_.valid() ? embedding(graph_, table, position_) : table; }
  // x [T,D] -> [T,D]
  Value attention(Value x, std::int64_t layer);

  Value position_;  // of the one token, beside kept keys

 private:
  struct Tables {
    Value cosines, sines;
  };
  struct Heads {
    Value q, k, v;   // [B,S,heads,width]
    Value low = {};  // what queries are projected from, in latent attention
  };

  Dim positions() const { return {config_.context, 'S'}; }
  Tables tables(std::string_view name, std::int64_t width);
  // A projection of x [T,D] as heads [B,S,heads,size], before a norm of each head.
  Value project(Value x, std::int64_t heads, std::int64_t size, const char* name, const char* norm_name = nullptr);
  Value norm_of_heads(Value x, const char* name);
  // The RMS norm without weight.
  Value plain_norm(Value x, const char* name);
  // x [B,S,heads,width]
  Value norm_of_each_head(Value x, const char* name);
  // x [B,S,heads,width], the first elements of each head rotated.
  Value rotate(Value x, std::int64_t layer);
  // Projected queries or keys [B,S,heads,width] as attention reads them.
  Value rotated_heads(Value projected, const char* norm_name, std::int64_t layer);
  // Queries [B,S,H,d] times the factors of their positions.
  Value grown(Value q, std::int64_t layer);
  Heads heads_of(Value x, std::int64_t layer);
  // The keys and values of the sequence so far, where a graph has those of one token.
  Heads with_earlier_keys(Heads made);
  // 1 at the keys [1,1,1,K] that the token at `position_` sees, 0 at others.
  Value seen_keys(std::int64_t layer);
  // Without queries.
  Heads keys_of(Value x, std::int64_t layer);
  // [T,rank] -> its RMS norm.
  Value latent_norm(Value x, const char* name);
  // Of the heads of queries and keys the last part is rotated, which the heads of keys share.
  Heads latent_heads(Value x, std::int64_t layer);
  // x [B,S,heads,width], with zeros up to the width.
  Value padded(Value x, std::int64_t width);
  // The heads [B,S,H,value size] of attention. The op attention has one size for all heads: those of values get zeros,
  // which come out again.
  Value attend(Heads heads, std::int64_t layer, Value kept = {});
  // Each whole chunk of the sequence is a sequence of the batch; what is left at the end is attended apart.
  Value attend_in_chunks(const Heads& heads, std::int64_t layer);
  bool has_chunks(std::int64_t layer) const;
  Value compressed_attention(Value x, std::int64_t layer);
  // 1 at the keys that an indexer keeps, for the layer's queries; no value where these are all.
  Value kept_keys(Value x, Value low, std::int64_t layer);
  AttentionForm form(std::int64_t layer) const;
  // 0: a token sees all before it.
  std::int64_t window_of(std::int64_t layer) const;

  Value linear_bias_;
  std::optional<Tables> rotary_, window_rotary_;
  std::optional<Value> query_growth_;
  Value kept_;                                    // of the last layer with an indexer
  std::optional<Heads> full_keys_, window_keys_;  // of the last layer of the kind that has its own
};

}  // namespace ridgepoint
