// Attention of DeepSeek-V4: one head is keys and values of all queries. A query sees the keys of a window, and behind
// them compressed ones, each a weighted sum of several tokens, of which an indexer may choose the best. Heads are
// projected to the width of the model in groups, through a low rank.
#pragma once

#include <cstdint>
#include <vector>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/models/attention_variant.h"

namespace ridgepoint {

// What a layer attends to beside its window. overlapping: entries of two windows of tokens each, chosen by an indexer.
enum class Compression : std::uint8_t { none, overlapping, heavy };

struct CompressedAttention {
  std::int64_t q_rank = 0;   // 0: attention is not of this kind
  std::int64_t rotated = 0;  // the last elements of a head
  std::int64_t groups = 0;   // of heads, whose results are projected apart
  std::int64_t group_rank = 0;
  std::int64_t overlapping_rate = 4, heavy_rate = 128;  // tokens of an entry
  std::int64_t index_heads = 0, index_size = 0, index_kept = 0;
  std::vector<Compression> layers = {};  // layer i has entry i modulo the size; not empty

  Compression compression(std::int64_t layer) const {
    return layers.empty() ? Compression::none : layers[static_cast<std::size_t>(layer) % layers.size()];
  }
  std::int64_t rate(Compression kind) const { return kind == Compression::heavy ? heavy_rate : overlapping_rate; }

  bool operator==(const CompressedAttention&) const = default;
};

// Of one layer, with heads of `size`.
std::int64_t compressed_attention_parameters(const CompressedAttention& made_of, Compression kind, std::int64_t d_model,
                                             std::int64_t heads, std::int64_t size);

// Of these, those of the indexer of a layer whose keys overlap.
std::int64_t compressed_indexer_parameters(const CompressedAttention& made_of, std::int64_t d_model);

struct CompressedInputs {
  Value x;               // [T,D]
  Value cosines, sines;  // of the layer's kind, [S,rotated/2]
  Dim batch, sequence;
  std::int64_t heads = 0, size = 0, window = 0;
  double norm_epsilon = 1e-6;
  AttentionVariant variant = {};  // of layers without compressed keys; the others run composite
};

// [T,D] -> [T,D]. Parameters under the current scope: q_a_proj.weight [R,D], q_a_norm.weight [R], q_b_proj.weight
// [H d,R], kv_proj.weight [d,D], kv_norm.weight [d], sinks [H], output_a_proj.weight [G r,H d / G] and
// output_b_proj.weight [D,G r]; where keys are compressed, compressor.{values,gates}.weight [c d,D] with c 2 if they
// overlap and otherwise 1, compressor.position_bias [rate,c d] and compressor.norm.weight [d]; with an indexer, which
// is frozen, the same under compressor.indexer with its head size, and queries.weight [I i,R] and head_weights.weight
// [I,D].
Value build_compressed_attention(Graph& graph, const CompressedAttention& made_of, Compression kind,
                                 const CompressedInputs& inputs);

}  // namespace ridgepoint
