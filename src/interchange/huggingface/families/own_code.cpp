// Models that come with code of their own, which transformers downloads, and are Llama but for the names of their
// weights, a few biases and the places of norms: InternLM 1 and 2, Qwen 1, Baichuan, OLMo 1, the text model of Molmo.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void internlm_fields(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::internlm});
  attention_bias(fields, c.architecture, true, "bias");
}

void internlm(FamilyFields& fields, TransformerConfig& c) {
  internlm_fields(fields, c);
  fields.skip({"rotary"});
}

void internlm2(FamilyFields& fields, TransformerConfig& c) {
  internlm_fields(fields, c);
  fields.skip({"pretraining_tp"});
}

// intermediate_size counts gate and up together.
void qwen(FamilyFields& fields, TransformerConfig& c) {
  if (fields.in() == nullptr) c.d_ff *= 2;
  fields.decoder(c, {.sizes = usual::qwen, .epsilon_key = "layer_norm_epsilon", .theta_key = "rotary_emb_base"});
  Architecture& a = c.architecture;
  a.projection_bias = true;
  fields.write("no_bias", true);
  ConfigFields* in = fields.in();
  if (in == nullptr) return;
  if (c.d_ff % 2 != 0) in->fail("intermediate_size", "is {}; gate and up share it, so it is even", c.d_ff);
  c.d_ff /= 2;
  if (!in->flag("no_bias", true))
    in->fail("no_bias", "is false; biases of all layers are not supported in this family");
  if (in->positive("rotary_pct", 1) != 1) in->fail("rotary_pct", "is not 1; models of this family rotate whole heads");
  if (in->size("kv_channels", c.head_size()) != c.head_size())
    in->fail("kv_channels", "is not the width divided by the heads");
  note_dropout(*in, {"attn_dropout_prob", "emb_dropout_prob"});
  // Of contexts longer than seq_length in generation, of number types, and of kernels.
  fields.skip({"seq_length", "use_dynamic_ntk", "use_logn_attn", "use_flash_attn", "bf16", "fp16", "fp32", "onnx_safe",
               "scale_attn_weights", "softmax_in_fp32", "use_cache_kernel", "use_cache_quantization"});
}

// The models of 13B have ALiBi; the head of version 2, which has a larger vocabulary, divides its rows by their norms.
void baichuan(FamilyFields& fields, TransformerConfig& c) {
  if (ConfigFields* in = fields.in()) {
    if (in->has("model_max_length") && !in->has("max_position_embeddings"))
      c.architecture.positions = Positions::linear_bias;
  }
  const bool has_bias = c.architecture.positions == Positions::linear_bias;
  DecoderDefaults defaults = {.sizes = usual::baichuan};
  if (has_bias) {
    defaults.positions_key = "model_max_length";
    defaults.theta = std::nullopt;
  }
  fields.decoder(c, defaults);
  if (has_bias) c.architecture.positions = Positions::linear_bias;
  fields.skip({"model_max_length"});
  constexpr std::int64_t kVocabularyOfVersion1 = 64000;
  if (ConfigFields* in = fields.in(); in != nullptr && c.vocab > kVocabularyOfVersion1)
    in->note("the head is read as a linear layer; that of Baichuan 2 divides each row by its norm first");
}

// A layer norm may have weights, and biases with them; positions are rotary or learned; up stands before gate.
void hf_olmo(FamilyFields& fields, TransformerConfig& c) {
  ConfigFields* in = fields.in();
  Architecture& a = c.architecture;
  bool is_rotary = a.positions == Positions::rotary;
  fields.flag("rope", is_rotary, false);
  DecoderDefaults defaults = {.sizes = usual::hf_olmo,
                              .intermediate_key = "mlp_hidden_size",
                              .theta = is_rotary ? std::optional<double>(10000) : std::nullopt,
                              .hidden_key = "d_model",
                              .layers_key = "n_layers",
                              .heads_key = "n_heads",
                              .kv_heads_key = "n_kv_heads",
                              .positions_key = "max_sequence_length",
                              .epsilon_key = "layer_norm_eps",
                              .wide_by_four = true};
  if (in == nullptr || in->has("embedding_size")) defaults.vocab_key = "embedding_size";
  if (in == nullptr) c.d_ff *= 2;
  fields.decoder(c, defaults);
  a.positions = is_rotary ? Positions::rotary : Positions::learned;
  a.norm = Norm::layer_norm;
  fields.flag("layer_norm_with_affine", a.norm_weights, true);
  fields.flag("include_bias", a.projection_bias, true);
  a.output_bias = a.feed_forward_bias = a.projection_bias;
  fields.flag("bias_for_layer_norm", a.norm_biases, a.projection_bias);
  fields.flag("weight_tying", a.tied_head, true);
  a.head_bias = !a.tied_head && a.projection_bias;
  if (in == nullptr) return;
  if (!in->has("mlp_hidden_size")) c.d_ff = in->size("mlp_ratio", 4) * c.d_model;
  if (c.d_ff % 2 != 0) in->fail("mlp_hidden_size", "must be even, for gate and up share it");
  c.d_ff /= 2;
  if (in->flag("multi_query_attention", false)) a.kv_heads = c.heads > 1 ? 1 : 0;
  if (const std::string kind = in->text("layer_norm_type", "default"); kind != "default" && kind != "low_precision")
    in->fail("layer_norm_type", "is neither default nor low_precision");
  if (in->text("activation_type", "swiglu") != "swiglu") in->fail("activation_type", "is not swiglu");
  if (in->text("block_type", "sequential") != "sequential") in->fail("block_type", "is not sequential");
  for (const char* key : {"alibi", "attention_layer_norm", "embedding_layer_norm", "norm_after", "scale_logits",
                          "scale_emb_init", "clip_qkv"})
    in->refuse(key, "models of this kind are not supported");
  // Of the initial values, of number types and of kernels.
  fields.skip({"alibi_bias_max", "attention_layer_norm_with_affine", "block_group_size", "emb_init_std",
               "flash_attention", "init_cutoff_factor", "init_device", "init_fn", "init_std", "mlp_ratio", "precision",
               "rope_full_precision", "rope_theta", "vocab_size"});
}

// Images are made of tokens that the embedding has beyond the vocabulary, and that the head does not predict. Gate and
// up share intermediate_size, up first.
void molmo(FamilyFields& fields, TransformerConfig& c) {
  constexpr std::int64_t kTokensOfImages = 128;  // its code has the number
  ConfigFields* in = fields.in();
  Architecture& a = c.architecture;
  DecoderDefaults defaults = {
      .sizes = usual::molmo, .activation_key = {}, .theta = 1e6, .epsilon_key = "layer_norm_eps"};
  if (in == nullptr || in->has("embedding_size")) defaults.vocab_key = "embedding_size";
  if (in == nullptr) c.d_ff *= 2;
  fields.decoder(c, defaults);
  a.unpredicted_tokens = kTokensOfImages;
  fields.flag("qkv_bias", a.projection_bias, false);
  fields.choice("attention_layer_norm", a.projection_norm, ProjectionNorm::whole, ProjectionNorm::none, false);
  fields.choice("norm_after", a.placement, NormPlacement::after, NormPlacement::before, false);
  fields.write("layer_norm_type", "rms");
  fields.skip({"vocab_size", "use_position_ids"});
  if (in == nullptr) return;
  if (c.d_ff % 2 != 0) in->fail("intermediate_size", "is {}; gate and up share it, so it is even", c.d_ff);
  c.d_ff /= 2;
  if (in->text("layer_norm_type", "rms") != "rms")
    in->fail("layer_norm_type", "is not rms; layer norms of another kind are not supported in this family");
  in->refuse("clip_qkv", "limits of queries, keys and values are not supported in this family");
  if (a.tied_head || in->flag("weight_tying", false))
    in->fail("weight_tying", "is true; the head of this family is its own");
  in->note("images are not read: the model is its text model alone");
}

constexpr WeightNames names_of_olmo(std::string_view embedding, std::string_view positions,
                                    std::string_view more_embeddings) {
  return {.model = "model.transformer.",
          .embedding = embedding,
          .positions = positions,
          .layers = "blocks",
          .final_norm = "ln_f",
          .more_embeddings = more_embeddings,
          .head = "model.transformer.ff_out",
          .attention = "",
          .qkv = "att_proj",
          .output = "attn_out",
          .feed_forward = "",
          .gate_up = "ff_proj",
          .up_before_gate = true,
          .down = "ff_out",
          .norms = {"attn_norm", "", "ff_norm", ""}};
}

}  // namespace

extern const Family family_internlm{"internlm", "InternLMForCausalLM", internlm, {}, kNotModelled};
extern const Family family_internlm2{"internlm2",
                                     "InternLM2ForCausalLM",
                                     internlm2,
                                     {.embedding = "tok_embeddings",
                                      .head = "output",
                                      .attention = "attention",
                                      .qkv = "wqkv",
                                      .output = "wo",
                                      .feed_forward = "feed_forward",
                                      .gate = "w1",
                                      .up = "w3",
                                      .down = "w2",
                                      .norms = {"attention_norm", "", "ffn_norm", ""},
                                      .qkv_by_group = true},
                                     kNotModelled};
extern const Family family_qwen{"qwen",
                                "QWenLMHeadModel",
                                qwen,
                                {.model = "transformer.",
                                 .embedding = "wte",
                                 .layers = "h",
                                 .final_norm = "ln_f",
                                 .attention = "attn",
                                 .qkv = "c_attn",
                                 .output = "c_proj",
                                 .gate = "w2",
                                 .up = "w1",
                                 .down = "c_proj",
                                 .norms = {"ln_1", "", "ln_2", ""}},
                                kNotModelled};
extern const Family family_baichuan{"baichuan", "BaichuanForCausalLM", baichuan, {.qkv = "W_pack"}, kNotModelled};
extern const Family family_hf_olmo{"hf_olmo", "OLMoForCausalLM", hf_olmo, names_of_olmo("wte", "wpe", {}),
                                   kNotModelled};
extern const Family family_molmo{"molmo", "MolmoForCausalLM", molmo,
                                 names_of_olmo("wte.embedding", {}, "wte.new_embedding"), kNotModelled};

}  // namespace ridgepoint
