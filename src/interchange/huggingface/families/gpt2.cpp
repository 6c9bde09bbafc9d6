// GPT-2: layer norms with biases, learned positions, no gate, biases everywhere, the embedding as head.
#include <fmt/format.h>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

constexpr double kDropout = 0.1;  // where a file has no dropout

TransformerConfig read_gpt2(ConfigFields& fields) {
  TransformerConfig c;
  c.vocab = fields.size("vocab_size", 50257);
  c.d_model = fields.size("n_embd", 768);
  c.layers = fields.size("n_layer", 12, kMostLayers);
  c.heads = fields.size("n_head", 12);
  c.d_ff = fields.optional_size("n_inner", std::nullopt).value_or(4 * c.d_model);
  if (c.d_model % c.heads != 0)
    fields.fail("n_head", fmt::format("is {} and does not divide n_embd, {}", c.heads, c.d_model));
  Architecture& a = c.architecture;
  a.max_context = fields.size("n_positions", 1024);
  a.norm = Norm::layer_norm;
  a.norm_epsilon = fields.positive("layer_norm_epsilon", 1e-5);
  a.activation = read_activation(fields, "activation_function", "gelu_new");
  a.gated = false;
  a.projection_bias = a.output_bias = a.feed_forward_bias = true;
  a.positions = Positions::learned;
  a.tied_head = fields.flag("tie_word_embeddings", true);
  if (!fields.flag("scale_attn_weights", true)) a.query_scale = 1;
  fields.refuse("scale_attn_by_inverse_layer_idx", "scores scaled by the number of their layer are not supported");
  fields.skip("n_ctx");                    // n_positions before 2022
  fields.skip("reorder_and_upcast_attn");  // the order of a product with a number
  note_dropout(fields, {"resid_pdrop", "embd_pdrop", "attn_pdrop"}, kDropout);
  return c;
}

void write_gpt2(const TransformerConfig& c, Json& fields) {
  const Architecture& a = c.architecture;
  fields["vocab_size"] = c.vocab;
  fields["n_embd"] = c.d_model;
  fields["n_layer"] = c.layers;
  fields["n_head"] = c.heads;
  fields["n_inner"] = c.d_ff;
  fields["n_positions"] = a.max_context;
  fields["layer_norm_epsilon"] = a.norm_epsilon;
  fields["activation_function"] = a.activation == Activation::gelu_tanh ? "gelu_new" : activation_name(a.activation);
  fields["scale_attn_weights"] = a.query_scale == 0;
  fields["tie_word_embeddings"] = a.tied_head;
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) fields[key] = 0.0;
}

}  // namespace

extern const Family family_gpt2{"gpt2",
                                "GPT2LMHeadModel",
                                read_gpt2,
                                write_gpt2,
                                {.model = "transformer.",
                                 .embedding = "wte",
                                 .positions = "wpe",
                                 .layers = "h",
                                 .final_norm = "ln_f",
                                 .attention = "attn",
                                 .qkv = "c_attn",
                                 .output = "c_proj",
                                 .up = "c_fc",
                                 .down = "c_proj",
                                 .norms = {"ln_1", "", "ln_2", ""},
                                 .norms_in_between = true,
                                 .is_transposed = true},
                                {.gpt2_blocks = true},
                                {".attn.bias", ".attn.masked_bias"}};  // masks that transformers once stored

}  // namespace ridgepoint
