// Transformers, decoders and encoders, that of docs/model.md and those of docs/models.md: their description and
// its graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/transformer/attention.h"
#include "models/transformer/compressed_attention.h"
#include "models/transformer/experts.h"
#include "models/transformer/key_selection.h"
#include "models/transformer/mixers.h"
#include "models/transformer/streams.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/models/workload.h"

namespace ridgepoint {

enum class Norm : std::uint8_t { rms_norm, layer_norm };
// Where the norms of a block stand. before: they read the residual stream (GPT-2, Llama). after: they read the results
// of attention and feed-forward, which are then added to the stream (OLMo 2). both: Gemma 2 and 3. of_sums: they read
// the stream after each addition, and give the stream (BERT).
enum class NormPlacement : std::uint8_t { before, after, both, of_sums };
// gelu is x Phi(x) with the error function; gelu_tanh its approximation by tanh (Hendrycks & Gimpel 2016).
enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu, relu_squared };
// linear_bias: scores have a term that falls with the distance of the key, at a rate of each head (ALiBi, Press et al.
// 2022, arXiv:2108.12409).
enum class Positions : std::uint8_t { rotary, learned, linear_bias };
// How attention and feed-forward follow each other. side_by_side: both read the block's input, through norms of their
// own (GPT-NeoX), or through one that they share (Phi, Cohere), and their results are added to it.
enum class BlockOrder : std::uint8_t { in_turn, side_by_side, side_by_side_one_norm };
// Norms of queries and keys before their rotation. per_head: one weight of the head size for all heads (Qwen 3,
// Gemma 3). whole: over all heads together, a weight of the projection's width (OLMo 2). rotated: as per_head, after
// rotation (Hunyuan). unweighted: after rotation, without a weight, in layers that rotate (Llama 4). each_head: a layer
// norm without bias whose weights are those of one head (Command R+).
enum class ProjectionNorm : std::uint8_t { none, per_head, whole, rotated, unweighted, each_head };
// How the frequencies of rotary embedding are stretched for longer sequences. linear: all divided by the factor.
// llama3: only those of long waves, with a smooth transition (Llama 3.1). yarn: those of long waves, with a ramp (Peng
// et al. 2023). longrope: each by a factor of its own (Phi-3). dynamic: a larger base beyond the original context.
// proportional: a part of a head is rotated, at the frequencies that it has where the whole head is (Gemma 4).
enum class RotaryScaling : std::uint8_t { none, linear, llama3, yarn, longrope, dynamic, proportional };

std::string_view name(Norm norm);                // rms_norm layer_norm
std::string_view name(NormPlacement placement);  // before after both of_sums
std::string_view name(Activation activation);    // silu gelu gelu_tanh relu relu_squared
std::string_view name(Positions positions);      // rotary learned linear_bias
std::string_view name(BlockOrder order);         // in_turn side_by_side side_by_side_one_norm
std::string_view name(ProjectionNorm norm);      // none per_head whole rotated unweighted each_head
std::string_view name(RotaryScaling scaling);    // none linear llama3 yarn longrope dynamic proportional

struct Rotary {
  double theta = 10000;
  double share = 1;  // of the head size that is rotated, the first elements; the others stay
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 1;                       // all but longrope; of proportional, a divisor of all
  double low_frequency_factor = 1;         // llama3
  double high_frequency_factor = 4;        // llama3
  std::int64_t original_context = 8192;    // all but linear
  double fast_turns = 32, slow_turns = 1;  // yarn: over the original context, where the ramp begins and ends
  bool whole_steps = true;                 // yarn: the ramp begins and ends at whole elements
  double amplitude = 1;                    // yarn, longrope: the factor of all cosines and sines
  double long_amplitude = 0;               // the same beyond the original context; 0: as before it
  std::vector<double> short_factors = {}, long_factors = {};  // longrope: up to the original context, and beyond it

  bool operator==(const Rotary&) const = default;
};

// Feed-forward layers of which each token runs a few. The width of one is TransformerConfig::d_ff.
struct Experts {
  std::int64_t count = 0;  // 0: every layer has one feed-forward layer
  std::int64_t per_token = 0;
  bool normalised = false;        // the weights of a token's experts sum to 1 (Mixtral)
  std::int64_t shared_width = 0;  // width of the expert that every token runs; 0: there is none
  double auxiliary_loss = 0;      // the factor of the load-balancing loss; 0: the loss has none
  bool shared_gate = true;        // the shared expert stands behind a sigmoid gate (Qwen 2 MoE)
  ExpertRules rules = {};
  // Which layers have experts: layer i has entry i modulo the size; the others one layer of width dense_width. Empty:
  // all.
  std::vector<bool> layers = {};
  std::int64_t dense_width = 0;
  // A layer with experts also has a layer of the dense width, beside them. Each has norms of its own, and the router
  // reads the residual stream (Gemma 4).
  bool beside_dense = false;
  // A layer with experts has a layer of the dense width, too, after them, with a norm of its own (OpenMoE).
  bool before_dense = false;
  std::int64_t hashed_layers = 0;  // the first layers, where a table says the experts of each token (DeepSeek V4)

  bool operator==(const Experts&) const = default;
};

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): queries and keys with values are projected through a low
// rank with an RMS norm. The last `rotated` elements of a head of queries are rotated, and those of the keys are
// projected apart, once for all heads. A head of queries has Architecture::head_size elements.
struct LatentAttention {
  std::int64_t kv_rank = 0;  // 0: attention is as usual
  std::int64_t q_rank = 0;   // 0: queries are projected at once
  std::int64_t rotated = 0;
  std::int64_t value_size = 0;  // of a head of values
  double norm_epsilon = 1e-6;
  // Of yarn, whose factor of the scores is the square of 1 + 0.1 stretch log(factor).
  double stretch = 0;

  bool operator==(const LatentAttention&) const = default;
};

// Heads of the layers without a window, where they differ from those with one (Gemma 4). 0: they do not.
struct FullHeads {
  std::int64_t size = 0;
  std::int64_t kv_heads = 0;
  bool keys_are_values = false;  // values are the projected keys, before norm and rotation

  bool operator==(const FullHeads&) const = default;
};

// Each layer reads, beside the stream, a vector of each token: its row of a second embedding plus a projection of the
// first one. The vector times a gate is projected to the width of the stream and added (Gemma 3n and 4).
struct PerLayerInputs {
  std::int64_t width = 0;  // of the vector; 0: there are none
  std::int64_t vocab = 0;

  bool operator==(const PerLayerInputs&) const = default;
};

// Images in place of tokens: the values of each patch are projected to the width, after the token of the class, whose
// last state alone the head reads (ViT, Dosovitskiy et al. 2021, arXiv:2010.11929). The vocabulary is that of classes.
struct Images {
  std::int64_t size = 0;  // height and width; 0: the model reads tokens
  std::int64_t patch = 0;
  std::int64_t channels = 0;

  std::int64_t patches() const { return (size / patch) * (size / patch); }
  std::int64_t values() const { return channels * patch * patch; }  // of a patch: by channel, row and column

  bool operator==(const Images&) const = default;
};

// Queries grow with their position p: by 1 + strength log(1 + floor((p + offset) / length)). Strength 0: they do not.
struct QueryGrowth {
  double strength = 0;
  std::int64_t length = 0;
  std::int64_t offset = 0;
  bool unrotated_layers = false;  // only in layers without rotation (Llama 4)

  bool operator==(const QueryGrowth&) const = default;
};

// Factors of what the parts of a layer read and make (Falcon-H1); StateMixer has those of its state space.
struct PartScales {
  double attention_input = 1, attention_output = 1;
  double keys = 1;
  double gate = 1;  // of the feed-forward network, before its activation
  double feed_forward = 1;

  bool operator==(const PartScales&) const = default;
};

Value activated(Graph& graph, Activation activation, Value x);

// What the layers are made of, apart from their sizes. The default is the model of docs/model.md; docs/models.md says
// which published families need what.
struct Architecture {
  std::string family = {};     // as config.json names it (`model_type`); empty: the model of docs/model.md
  std::int64_t kv_heads = 0;   // heads of keys and values, which divide the heads; 0: as many as heads
  std::int64_t head_size = 0;  // 0: d_model / heads
  Norm norm = Norm::rms_norm;
  NormPlacement placement = NormPlacement::before;
  double norm_epsilon = 1e-5;
  bool norm_adds_one = false;  // an RMS norm multiplies by 1 + weight (Gemma)
  bool norm_weights = true;    // norms of the stream have weights (OLMo 1: no)
  bool norm_biases = true;     // and layer norms also biases (Cohere: no)
  BlockOrder block = BlockOrder::in_turn;
  Activation activation = Activation::silu;
  bool gated = true;             // feed-forward: w2(act(w1 x) * w3 x); otherwise w2(act(w1 x))
  bool third_factor = false;     // w2(act(w1 x) * w3 x * w4 x), as it is with a gate that is gated itself (OpenMoE)
  bool projection_bias = false;  // of q, k and v
  bool output_bias = false;      // of the output projection
  bool feed_forward_bias = false;
  bool tied_head = false;  // the head is the embedding
  bool head_bias = false;
  std::int64_t unpredicted_tokens = 0;  // rows of the embedding after those of the vocabulary, which the head lacks
  Positions positions = Positions::rotary;
  std::int64_t max_context = 0;  // rows of learned positions; for rotary ones what the model was trained for, 0 unknown
  std::int64_t unused_positions = 0;  // rows of learned positions before that of the first token (OPT)
  Rotary rotary = {};
  double largest_bias = 8;  // linear_bias: the rates are 2^-(largest i / H) for i from 1 to H, H a power of 2
  bool low_bias = false;    // they and their products with positions are rounded to bf16, and scaled as scores (Falcon)
  bool embedding_norm = false;  // the embedding, with learned positions, has a norm (BLOOM, BERT)
  ProjectionNorm projection_norm = ProjectionNorm::none;
  double query_scale = 0;  // the factor of the scores; 0: 1 / sqrt(head size)
  double score_cap = 0;    // scores become cap tanh(scores / cap); 0: they stay
  double logit_cap = 0;    // the same of the logits
  double projection_limit =
      0;  // q, k and v, behind a norm of the whole, are limited to [-limit, limit]; 0: they are not
  double embedding_scale = 1;
  double residual_scale = 1;  // of the results of attention and feed-forward
  double logit_scale = 1;
  bool sinks = false;  // each head has a score of its own that no value belongs to (gpt-oss)
  LatentAttention latent = {};
  KeySelection selection = {};
  CompressedAttention compressed = {};  // layers with a window are those without compressed keys
  QueryGrowth query_growth = {};
  FullHeads full_heads = {};
  bool value_norm = false;  // heads of values have an RMS norm without weight (Gemma 4)
  // The last layers project queries alone, and read the keys and values of the last layer of their kind before them.
  std::int64_t layers_without_keys = 0;
  bool wide_without_keys = false;  // their feed-forward layers are twice as wide
  PerLayerInputs per_layer = {};
  bool is_causal = true;  // otherwise a token sees those after it, too
  // Of a model of masked tokens the loss is that of the tokens whose targets are not negative (BERT).
  bool is_masked() const { return !is_causal && images.size == 0; }
  bool predicts_next_token() const { return is_causal && images.size == 0; }
  std::int64_t token_types = 0;  // rows of an embedding of types; every token has the first one. 0: there is none
  bool final_norm = true;
  bool head_transform = false;  // a linear layer of the width, the activation and a norm stand before the head
  Images images = {};
  HyperConnections connections = {};
  AlternatingUpdates updates = {};  // with them, layers are those of Gemma 3n
  std::int64_t low_rank = 0;        // LAuReL: attention stands beside its input plus a projection through this rank
  // Of each layer, the share of the gate's normal distribution that becomes 0 (Gemma 3n); empty: none.
  std::vector<double> sparsity = {};
  bool layer_scalars = false;  // a number, no parameter, is a factor of the result of each layer (Gemma 4)
  std::int64_t window = 0;     // a query sees this many keys, its own included; 0: all before it
  // Which layers have the window: layer i has entry i modulo the size. Empty: all.
  std::vector<bool> window_layers = {};
  bool chunks = false;  // in place of a window, a query sees the keys of its own chunk of `window` tokens (Llama 4)
  // Which layers rotate nothing, in the same way. Empty: none.
  std::vector<bool> unrotated_layers = {};
  Rotary window_rotary = {};  // of layers with a window, if `separate_rotary` (Gemma 3)
  bool separate_rotary = false;
  bool output_gate = false;  // attention's result is multiplied by the sigmoid of a projection (Qwen3-Next)
  // What mixes the tokens of a layer: layer i has entry i modulo the size. Empty: attention in all.
  std::vector<Mixer> mixers = {};
  StateMixer state = {};  // of the mixers that are no attention
  // Which layers have a feed-forward network, in the same way. Empty: all.
  std::vector<bool> feed_forward_layers = {};
  PartScales part_scales = {};
  Experts experts = {};

  Mixer mixer(std::int64_t layer) const {
    return mixers.empty() ? Mixer::attention : mixers[static_cast<std::size_t>(layer) % mixers.size()];
  }
  bool has_feed_forward(std::int64_t layer) const { return is_one_of(feed_forward_layers, layer, true); }

  // Whether the layer is one of those with a window, of whatever length.
  bool has_window(std::int64_t layer) const { return window > 0 && is_one_of(window_layers, layer, true); }
  bool is_rotated(std::int64_t layer) const {
    return positions == Positions::rotary && attends(mixer(layer)) && !is_one_of(unrotated_layers, layer, false);
  }
  bool has_experts(std::int64_t layer) const {
    return experts.count > 0 && has_feed_forward(layer) && is_one_of(experts.layers, layer, true);
  }

  // Whether the layer has a feed-forward network that all tokens run, alone or with experts.
  bool has_dense(std::int64_t layer) const {
    return has_feed_forward(layer) && (!has_experts(layer) || experts.beside_dense || experts.before_dense);
  }

  static bool is_one_of(const std::vector<bool>& layers, std::int64_t layer, bool if_empty) {
    return layers.empty() ? if_empty : layers[static_cast<std::size_t>(layer) % layers.size()];
  }

  bool operator==(const Architecture&) const = default;
};

// Four times as many as any model that was published has.
inline constexpr std::int64_t kMostLayers = 4096;

// PyTorch's ignore_index.
inline constexpr std::int64_t kIgnoredTarget = -100;

// How the files of a model have the weights of its linear layers.
struct PublishedPacking {
  BaseWeights format = BaseWeights::as_is;  // their packed bytes, which a program takes as they are
  std::string widened = {};                 // not empty: another form that is only read by widening it
  std::vector<std::string> skipped = {};    // the modules that are not packed, beside the head
  std::string dtype = {};                   // of the weights before they were packed: "bfloat16"

  bool is_packed() const { return format != BaseWeights::as_is || !widened.empty(); }
};

struct TransformerConfig {
  std::string name = "custom";
  std::int64_t vocab = 10000;
  std::int64_t context = 256;
  std::int64_t d_model = 0;
  std::int64_t d_ff = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  AttentionVariant attention = AttentionVariant::composite;
  Architecture architecture = {};
  // Whether tokens with the target kIgnoredTarget are left out of the loss, which is the mean over the others.
  bool ignores_targets = false;
  PublishedPacking packing = {};

  std::int64_t head_size() const { return architecture.head_size > 0 ? architecture.head_size : d_model / heads; }
  std::int64_t kv_heads() const { return architecture.kv_heads > 0 ? architecture.kv_heads : heads; }
  // Of the layers without a window.
  std::int64_t full_head_size() const {
    return architecture.full_heads.size > 0 ? architecture.full_heads.size : head_size();
  }
  std::int64_t head_size(std::int64_t layer) const {
    return architecture.has_window(layer) ? head_size() : full_head_size();
  }
  std::int64_t kv_heads(std::int64_t layer) const {
    const bool are_others = architecture.full_heads.kv_heads > 0 && !architecture.has_window(layer);
    return are_others ? architecture.full_heads.kv_heads : kv_heads();
  }
  // Whether the layer projects keys and values of its own.
  bool has_keys(std::int64_t layer) const { return layer < layers - architecture.layers_without_keys; }
  bool keys_are_values(std::int64_t layer) const {
    return architecture.full_heads.keys_are_values && !architecture.has_window(layer);
  }
  // Of the feed-forward layers that have no experts, or that stand beside them.
  std::int64_t dense_width() const { return architecture.experts.count > 0 ? architecture.experts.dense_width : d_ff; }
  std::int64_t dense_width(std::int64_t layer) const {
    return dense_width() * (architecture.wide_without_keys && !has_keys(layer) ? 2 : 1);
  }
  // Of a head of values.
  std::int64_t value_size(std::int64_t layer) const {
    return architecture.latent.kv_rank > 0 ? architecture.latent.value_size : head_size(layer);
  }
};

// In ascending order of their parameters. docs/model.md lists them.
const std::vector<TransformerConfig>& transformer_presets();
// Throws Error (usage) with the most similar name, or all names.
TransformerConfig transformer_preset(std::string_view name);
// Throws Error (usage) for a size that is not positive, heads that do not divide d_model, an odd head size, and
// products that overflow.
void validate(const TransformerConfig& config, std::int64_t batch);
// What validate() checks of layers alone, whatever their heads and the run.
void validate_layers(const TransformerConfig& config);
// Throws Error (usage) when the count overflows.
std::int64_t parameter_count(const TransformerConfig& config);
// Of these, those of indexers, which have no gradient.
std::int64_t frozen_parameter_count(const TransformerConfig& config);

// What a graph does with the keys and values of attention: text is written token by token, and each token reads those
// of the tokens before it. give: they are outputs, LAYER.attn.keys and LAYER.attn.values [B,S,heads,size]. keep: the
// graph computes one token, which stands at "position" int64 [1] of a sequence of the context's length. The keys and
// values of the sequence are states of the same names, to which it adds its own.
enum class KeyCache : std::uint8_t { none, give, keep };
inline constexpr std::string_view kCachedKeys = ".keys";
inline constexpr std::string_view kCachedValues = ".values";
// Why a token of this model cannot be computed from kept keys and values, as a clause; empty if it can.
std::string why_no_key_cache(const TransformerConfig& config);

// The forward graph. Inputs: "inputs" and "targets" int64 [B,S], the parameters by name, and the rotary tables.
// Outputs: "logits" fp32 [B,S,V] and the loss, "loss", an fp32 scalar. Of a model of masked tokens, negative targets
// are left out of the loss. One of images has "inputs" fp32 [B,S-1,values], "targets" [B] and "logits" [B,V].
// `stop_point` is called for each layer.
Graph build_transformer(const TransformerConfig& config, std::int64_t batch, const StopPoint& stop_point = {},
                        KeyCache cache = KeyCache::none);

// The language model as a workload; tokens and targets are uniformly distributed.
class Transformer final : public Workload {
 public:
  // Throws Error (usage) as validate() does.
  Transformer(TransformerConfig config, std::int64_t batch, KeyCache cache = KeyCache::none);

  const TransformerConfig& config() const { return config_; }
  const TransformerConfig* transformer() const override { return &config_; }
  WorkloadDescription describe() const override;
  Graph build(const StopPoint& stop_point = {}) const override {
    return build_transformer(config_, batch_, stop_point, cache_);
  }
  // The embedding has standard deviation 1, those of the families of docs/models.md 0.02; biases are 0, and so are the
  // weights of norms that add one to them. Other weights as in Workload.
  TruncatedNormal initial_distribution(const ParameterDeclaration& parameter) const override;
  // Also writes the rotary tables. Of a model of masked tokens, 15 % of them have targets, as in BERT's
  // training.
  void write_data(Program& program, std::uint64_t seed, const StopPoint& stop_point = {}) const override;
  std::int64_t units() const override { return batch_ * config_.context; }
  std::string_view unit() const override { return "tokens"; }
  // Counts the model with the attention variant `composite`, so that all variants have the same count.
  using Workload::flops;
  std::int64_t flops(const CompileOptions& options) const override;

 private:
  TransformerConfig config_;
  std::int64_t batch_;
  KeyCache cache_;
};

// A constant that files of weights may have, without files: the numbers by which training balances the experts are 0,
// the factors of layers 1, and in a table of experts those of a token follow each other and those of the next token
// follow them. Empty for what is no such constant.
std::optional<HostTensor> initial_constant(const TransformerConfig& config, const ParameterDeclaration& constant);

// The cosines and sines of rotary embedding (Su et al. 2021), which a Transformer's graph takes as constants.

// The width of a head that is rotated: an even number.
std::int64_t rotated_width(const Rotary& rotary, std::int64_t head_size);
std::int64_t rotated_width(const TransformerConfig& config, const Rotary& rotary);  // of its usual heads
std::int64_t rotated_width(const TransformerConfig& config, std::int64_t layer);

// The angle of each pair at position 1: theta^(-2i / width), stretched as `rotary` says for sequences of `context`.
// Scaling `proportional` needs the size of the head.
std::vector<double> rotary_frequencies(const Rotary& rotary, std::int64_t width, std::int64_t context = 0,
                                       std::int64_t head_size = 0);

// Names of the tables' inputs without ".cosines" and ".sines", fp32 [S,width/2].
inline constexpr std::string_view kRotary = "rope";
inline constexpr std::string_view kWindowRotary = "rope.window";  // of layers with a window, where these differ

// fp32 [S,H]: the term of the scores of each key and head, where positions are linear_bias.
inline constexpr std::string_view kLinearBias = "attn.linear_bias";

// The end of the name of a layer's factor, a constant [1] that a workload writes, where `layer_scalars` has them.
inline constexpr std::string_view kLayerScalar = ".scalar";

// fp32 [S,1,1]: the factor of the queries of each position, where `query_growth` has any.
inline constexpr std::string_view kQueryGrowth = "attn.query_growth";
bool grows_queries(const TransformerConfig& config);

// Writes the tables that the program has, for sequences of `length`, which differ from those of the whole context where
// rotations depend on the length (dynamic, longrope).
void write_rotary_tables(Program& program, const TransformerConfig& config, std::int64_t length);
bool rotates_by_length(const TransformerConfig& config);

}  // namespace ridgepoint
