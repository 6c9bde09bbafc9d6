// Models that come with code of their own, which transformers downloads, and are Llama but for the names of their
// weights and a few biases: InternLM 1 and 2, Qwen 1, Baichuan with rotary embedding.
#include <fmt/format.h>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void internlm(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.vocab = 103168, .max_positions = 2048});
  fields.flag("bias", c.architecture.projection_bias, true);
  c.architecture.output_bias = c.architecture.projection_bias;
  fields.skip({"rotary"});
}

void internlm2(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.vocab = 103168, .max_positions = 2048});
  fields.flag("bias", c.architecture.projection_bias, true);
  c.architecture.output_bias = c.architecture.projection_bias;
  fields.skip({"pretraining_tp"});
}

// intermediate_size counts gate and up together.
void qwen(FamilyFields& fields, TransformerConfig& c) {
  if (fields.in() == nullptr) c.d_ff *= 2;
  fields.decoder(c, {.vocab = 151936,
                     .intermediate = 22016,
                     .max_positions = 8192,
                     .epsilon_key = "layer_norm_epsilon",
                     .theta_key = "rotary_emb_base"});
  Architecture& a = c.architecture;
  a.projection_bias = true;
  fields.write("no_bias", true);
  ConfigFields* in = fields.in();
  if (in == nullptr) return;
  if (c.d_ff % 2 != 0) in->fail("intermediate_size", fmt::format("is {}; gate and up share it, so it is even", c.d_ff));
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
      in->fail("max_position_embeddings",
               "is missing, as in the models of 13B, whose ALiBi positions are not supported");
    in->skip("model_max_length");
  }
  fields.decoder(c, {.vocab = 64000, .max_positions = 4096});
  constexpr std::int64_t kVocabularyOfVersion1 = 64000;
  if (ConfigFields* in = fields.in(); in != nullptr && c.vocab > kVocabularyOfVersion1)
    in->note("the head is read as a linear layer; that of Baichuan 2 divides each row by its norm first");
}

}  // namespace

extern const Family family_internlm{"internlm", "InternLMForCausalLM", read_by<internlm>, write_by<internlm>,
                                    {},         kNotModelled};
extern const Family family_internlm2{"internlm2",
                                     "InternLM2ForCausalLM",
                                     read_by<internlm2>,
                                     write_by<internlm2>,
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
                                read_by<qwen>,
                                write_by<qwen>,
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
extern const Family family_baichuan{"baichuan",         "BaichuanForCausalLM", read_by<baichuan>,
                                    write_by<baichuan>, {.qkv = "W_pack"},     kNotModelled};

}  // namespace ridgepoint
