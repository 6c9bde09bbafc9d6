// Scores that fall with the distance of the key (ALiBi), and layer norms: BLOOM, with biases and a norm of the
// embedding, and MPT, without biases.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void bloom(FamilyFields& fields, TransformerConfig& c) {
  ConfigFields* in = fields.in();
  const bool has_old_names = in != nullptr && in->has("n_embed");
  const bool has_long_names = in != nullptr && in->has("num_attention_heads");
  fields.decoder(c, {.sizes = usual::bloom,
                     .intermediate_key = "n_inner",
                     .activation = "gelu_pytorch_tanh",
                     .theta = std::nullopt,
                     .hidden_key = has_old_names ? "n_embed" : "hidden_size",
                     .layers_key = in != nullptr && in->has("num_hidden_layers") ? "num_hidden_layers" : "n_layer",
                     .heads_key = has_long_names ? "num_attention_heads" : "n_head",
                     .positions_key = "seq_length",
                     .epsilon_key = "layer_norm_epsilon",
                     .wide_by_four = true});
  Architecture& a = c.architecture;
  a.positions = Positions::linear_bias;
  a.norm = Norm::layer_norm;
  a.embedding_norm = true;
  a.gated = false;
  a.projection_bias = a.output_bias = a.feed_forward_bias = true;
  fields.write("hidden_dropout", 0.0);
  if (in == nullptr) return;
  if (c.d_ff != 4 * c.d_model)
    in->fail("n_inner", "is {}; transformers has feed-forward layers of four times the width: {}", c.d_ff,
             4 * c.d_model);
  in->refuse("apply_residual_connection_post_layernorm", "residuals after the norm are not supported");
  // Of the order of operations, and of other code.
  fields.skip({"attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi",
               "pretraining_tp", "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact", "n_head", "hidden_size"});
}

void read_mpt_attention(ConfigFields& in, Architecture& a) {
  std::optional<ConfigFields> attention = in.object("attn_config");
  if (!attention) return;
  if (!attention->flag("alibi", true)) attention->fail("alibi", "is false; transformers has ALiBi always");
  if (attention->size("alibi_bias_max", 8) != 8)
    attention->fail("alibi_bias_max", "is not 8, the one that transformers computes with");
  for (const char* key : {"qk_ln", "prefix_lm", "attn_uses_sequence_id"})
    attention->refuse(key, "transformers does not compute it");
  a.projection_limit = attention->has("clip_qkv") ? attention->not_negative("clip_qkv", 0) : 0;
  a.query_scale = attention->has("softmax_scale") ? attention->positive("softmax_scale", 1) : 0;
  if (attention->not_negative("attn_pdrop", 0) > 0) in.note("dropout is off: attn_config.attn_pdrop");
}

// Its fields of attention are an object. transformers reads no other one of those that are refused.
void mpt(FamilyFields& fields, TransformerConfig& c) {
  ConfigFields* in = fields.in();
  fields.size("vocab_size", c.vocab, 50368);
  fields.size("d_model", c.d_model, 2048);
  fields.size("n_layers", c.layers, 24, kMostLayers);
  fields.size("n_heads", c.heads, 16);
  c.d_ff = 4 * c.d_model;
  if (in != nullptr && c.d_model % c.heads != 0)
    in->fail("n_heads", "is {} and does not divide the width {}", c.heads, c.d_model);
  Architecture& a = c.architecture;
  fields.positions("max_seq_len", c, 2048);
  a.positions = Positions::linear_bias;
  a.norm = Norm::layer_norm;
  a.norm_biases = false;
  fields.positive("layer_norm_epsilon", a.norm_epsilon, 1e-5);
  a.activation = Activation::gelu;
  a.gated = false;
  fields.flag("tie_word_embeddings", a.tied_head, true);
  if (in == nullptr) {
    fields.write("attn_config", {{"alibi", true}, {"attn_pdrop", 0}});
    if (a.projection_limit > 0) fields.write_into("attn_config", "clip_qkv", a.projection_limit);
    if (a.query_scale > 0) fields.write_into("attn_config", "softmax_scale", a.query_scale);
    return;
  }
  if (in->size("expansion_ratio", 4) != 4)
    in->fail("expansion_ratio", "is not 4; transformers has feed-forward layers of four times the width");
  if (!in->flag("no_bias", true)) in->fail("no_bias", "is false; transformers has no biases in this family");
  in->refuse("logit_scale", "transformers does not apply it to this family");
  note_dropout(*in, {"resid_pdrop", "emb_pdrop"});
  read_mpt_attention(*in, a);
  fields.skip({"learned_pos_emb"});  // of its own code
  fields.skip({"embedding_fraction", "init_device", "init_config", "norm_type", "verbose", "ffn_config", "fc_type",
               "tokenizer_name"});
}

}  // namespace

extern const Family family_bloom{"bloom",
                                 "BloomForCausalLM",
                                 bloom,
                                 {.model = "transformer.",
                                  .embedding = "word_embeddings",
                                  .layers = "h",
                                  .final_norm = "ln_f",
                                  .embedding_norm = "word_embeddings_layernorm",
                                  .attention = "self_attention",
                                  .qkv = "query_key_value",
                                  .output = "dense",
                                  .up = "dense_h_to_4h",
                                  .down = "dense_4h_to_h",
                                  .qkv_by_group = true},
                                 kNotModelled};
extern const Family family_mpt{"mpt",
                               "MptForCausalLM",
                               mpt,
                               {.model = "transformer.",
                                .embedding = "wte",
                                .layers = "blocks",
                                .final_norm = "norm_f",
                                .attention = "attn",
                                .qkv = "Wqkv",
                                .output = "out_proj",
                                .feed_forward = "ffn",
                                .up = "up_proj",
                                .down = "down_proj",
                                .norms = {"norm_1", "", "norm_2", ""}},
                               kNotModelled};

}  // namespace ridgepoint
