// A family of models: how its config.json is read and written, what its files call the weights, and what its code in
// transformers does otherwise than Llama's. One file a family, or some that share most of it; families.def lists them.
// Defaults of absent fields are those of transformers 4.57; fields that 5.x renamed are read under both names.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "models/transformer/transformer.h"

namespace ridgepoint {

// How the files have the experts of a layer. one_by_one: three matrices each. The others pack all of them into one
// tensor for gate and up and one for down. halves: [E, 2F, D], gate before up. transposed: [E, D, 2F], gate before up.
// alternating: [E, D, 2F], the rows of gate and up in turn. stacked: gate, up and the transpose of down are [E F, D]
// each.
enum class StoredExperts : std::uint8_t { one_by_one, halves, transposed, alternating, stacked };

// The modules of the files. Empty: the family has no such module.
struct WeightNames {
  std::string_view model = "model.", embedding = "embed_tokens", positions = {}, layers = "layers", final_norm = "norm";
  std::string_view more_embeddings =
      {};  // the tensor of Architecture::unpredicted_tokens; `embedding` is then one, too
  std::string_view embedding_norm = {}, token_types = {};
  std::string_view head = "lm_head", head_transform = {}, head_norm = {};
  // Of a layer. `qkv` and `gate_up` pack several projections into one weight.
  std::string_view attention = "self_attn", q = "q_proj", k = "k_proj", v = "v_proj", qkv = {}, output = "o_proj";
  std::string_view q_norm = "q_norm", k_norm = "k_norm";
  bool head_norms_apart = false;  // norms of each head are a tensor each
  std::string_view feed_forward = "mlp", gate = "gate_proj", up = "up_proj", gate_up = {};
  bool up_before_gate = false;  // in gate_up
  std::string_view down = "down_proj";
  std::string_view experts = "mlp", expert_gate = gate, expert_up = up, expert_down = down;
  std::string_view router_tensor = {};  // in place of the weight of the module `router`
  std::string_view router = "gate", shared_expert = "shared_expert", correction = "gate.e_score_correction_bias";
  bool shared_expert_in_layer = false;  // a module of the layer, not of the experts
  bool correction_is_row = false;       // [1, experts]
  StoredExperts stored_experts = StoredExperts::one_by_one;
  std::string_view expert_gate_up = "experts.gate_up_proj", experts_down = "experts.down_proj";  // packed ones
  // ln1, ln1_after, ln2 and ln2_after of this program.
  std::array<std::string_view, 4> norms = {"input_layernorm", "", "post_attention_layernorm", ""};
  std::array<std::string_view, 4> side_by_side_norms = {};  // the same of BlockOrder::side_by_side, if others
  bool norms_in_between = false;  // in the order of files: before and after attention, not at the end of the layer
  bool is_transposed = false;     // linear layers are [in, out]: Conv1D
  bool qkv_by_group = false;      // `qkv` has the queries, the key and the value of a head of keys together
  bool adjacent_pairs = false;    // rotary embedding turns elements 2i and 2i + 1, as this program does
  bool indexer_adjacent_pairs = false;  // and that of an indexer
  // Of a layer whose tokens are mixed otherwise than by attention (models/transformer/mixers.h).
  std::string_view mixer = {}, convolution = "conv1d";
  bool delta_by_group = false;  // the projections of each head of keys lie together, in two tensors (Qwen3-Next)
};

// Whether rotary embedding joins the elements that it rotates with the others: of queries before it rotates keys
// (Phi-3), or once both are rotated.
enum class Joins : std::uint8_t { none, one_by_one, both_at_the_end };

// What becomes of the products of queries and keys: they are multiplied by the factor of the scores; or queries and
// keys are cast to fp32 before, and the products are divided by it (GPT-J), or have a mask of their own (GPT-Neo).
enum class ScoresCode : std::uint8_t { multiplied, wide_divided, wide_masked };

// What its Python code does in another way than Llama's, as far as PyTorch's allocations depend on it.
struct TransformersCode {
  bool gpt2_blocks = false;           // split(), sums and masks of scores as GPT2Block has them
  bool has_plain_gelu = false;        // "gelu_new", in plain ops
  bool has_plain_layer_norm = false;  // layer norms in plain ops (Cohere)
  Joins joins = Joins::none;
  bool casts_rotated = false;          // rotary embedding computes in fp32, and its results are cast
  bool casts_before_rotation = false;  // it reads queries and keys in fp32
  bool rotates_by_token = false;       // it rotates before heads and tokens change places (Gemma 4)
  bool rotates_halves = false;         // it multiplies the halves of a head apart (gpt-oss)
  bool rotates_wide = false;           // its products alone are in fp32, of what has been put in order before
  bool repeats_tables = false;         // each layer makes its cosines and sines of halves
  ScoresCode scores = ScoresCode::multiplied;
  bool rotates_keys_first = false;   // by token, in the dtype of the keys (GPT-J)
  bool scales_queries = false;       // queries are scaled as they are projected
  bool sums_branches_first = false;  // side by side: attention + feed-forward + stream; otherwise the stream is first
  bool norms_by_power = false;       // RMS norms in plain ops with a power of -1/2 (Gemma 4)
  bool scales_norms_wide = false;    // norms multiply by the weight before the cast
  bool routes_wide = false;          // the weights of experts stay fp32
  bool routes_without_autocast = false;
  bool lacks_sdpa = false;
  bool keeps_mask = false;  // the model holds a boolean mask of its longest sequence
  bool is_unknown = false;  // its allocations are not modelled, and plan --as torch says so
};

inline constexpr TransformersCode kNotModelled = {.is_unknown = true};

class FamilyFields;

struct Family {
  std::string_view model_type;
  std::string_view class_name;  // in transformers
  // Reads a configuration from the fields of a file, or writes one as fields (FamilyFields says how).
  void (*fields)(FamilyFields& fields, TransformerConfig& config);
  WeightNames names = {};
  TransformersCode code = {};
  // Tensors of the files that belong to no parameter end so.
  std::array<std::string_view, 8> other_ends = {};
};

std::span<const Family* const> families();
// Null for a family that is not supported.
const Family* find_family(std::string_view model_type);
// That of the model; Llama for one without a family. Throws Error for one that is not supported.
const Family& family_of(const TransformerConfig& config);
// A model whose config.json holds that of a text model, with images or sound beside it, or that is one of another name.
struct OuterModel {
  std::string_view model_type;
  // The objects of the fields, one inside the other: "thinker_config.text_config". Without them, or where they are
  // empty, the fields stand in the object itself.
  std::string_view place = {};
  std::string_view family = {};  // of the text model, where its own model_type does not say it
  bool is_name = false;          // another name alone: there is nothing beside the text model
  bool is_always = false;        // the text model's own model_type is not what it is
};
const OuterModel* find_outer_model(std::string_view model_type);  // null for others
// The modules of such models that hold the text model, and those that hold the other parts.
std::span<const std::string_view> modules_of_text();
std::span<const std::string_view> modules_beside_text();

// What the program lacks for a family that it knows of and does not support; empty for others.
std::string_view lacking_for(std::string_view model_type);

}  // namespace ridgepoint
