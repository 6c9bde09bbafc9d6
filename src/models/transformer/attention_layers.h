// Attention of every layer of a Transformer's graph: projections, norms, rotary embeddings, kept keys, indexers.
// transformer_graph.cpp builds the rest of the graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/transformer/transformer.h"

namespace ridgepoint {

// What all layers share: sizes, and layers of one weight.
class GraphParts {
 protected:
  GraphParts(const TransformerConfig& config, std::int64_t batch, KeyCache cache)
      : config_(config),
        made_of_(config.architecture),
        cache_(cache),
        sequence_{cache == KeyCache::keep ? 1 : config.context, 'S'},
        tokens_{batch * sequence_.size, 'T'},
        batch_{batch, 'B'},
        model_{config.d_model, 'D'} {}

  Value parameter(const std::string& name, Shape shape) {
    return input(graph_, name, {DType::fp32, shape}, Role::parameter);
  }
  // The parameters `weight` and `bias` of the current scope.
  Value weight_here(Shape shape) { return parameter(graph_.scope() + ".weight", shape); }
  Value bias_here(Dim width) { return parameter(graph_.scope() + ".bias", {width}); }

  Value scaled(Value x, double factor) { return factor == 1 ? x : scale(graph_, x, factor); }

  // A vector of one number, where there is no parameter.
  Value filled(Dim width, double value) { return broadcast(graph_, constant(graph_, value, DType::fp32), {width}); }

  Value stream_norm(Value x, const char* name) { return norm(x, name, made_of_.norm_weights); }

  Value norm(Value x, const char* name, bool has_weight = true) {
    const ScopeGuard scope(graph_, name);
    const Dim width = graph_.type(x).shape.dim(-1);
    const Value weight = has_weight ? weight_here({width}) : filled(width, 1);
    if (made_of_.norm == Norm::layer_norm) {
      const Value bias = has_weight && made_of_.norm_biases ? bias_here(model_) : filled(width, 0);
      return layer_norm(graph_, x, weight, bias, made_of_.norm_epsilon)[0];
    }
    return rms_norm(graph_, x, made_of_.norm_adds_one ? shift(graph_, weight, 1.0) : weight, made_of_.norm_epsilon)
        .first;
  }

  // x [T,in] times the transpose of the weight [out,in] -> [T,out].
  Value linear(Value x, std::int64_t out, char label, const char* name, bool has_bias = false) {
    const ScopeGuard scope(graph_, name);
    const Value weight = weight_here({{out, label}, graph_.type(x).shape.dim(-1)});
    const Value product = matmul(graph_, x, transpose(graph_, weight, {1, 0}));
    return has_bias ? add(graph_, product, bias_here({out, label})) : product;
  }

  const TransformerConfig& config_;
  const Architecture& made_of_;
  const KeyCache cache_;
  Dim sequence_, tokens_, batch_, model_;
  Graph graph_;
};

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
