// Phi-3 and Phi-4: Llama whose projections of q, k and v, and of gate and up, are stored as one weight each.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

TransformerConfig read_phi3(ConfigFields& fields) {
  TransformerConfig c = read_decoder(fields, {.vocab = 32064,
                                              .hidden = 3072,
                                              .intermediate = 8192,
                                              .max_positions = 4096,
                                              .epsilon = 1e-5,
                                              .rotary_share = RotaryShare::may_be_partial});
  read_window_of_all_layers(fields, c, std::nullopt);
  fields.refuse("attention_bias", "biases of this family are not supported");
  fields.skip("original_max_position_embeddings");  // of scaled rotary embedding
  return c;
}

void write_phi3(const TransformerConfig& c, Json& fields) {
  write_decoder(c, fields);
  write_window(c, fields);
  const Rotary& rotary = c.architecture.rotary;  // the field beside the object wins in transformers, and has a default
  if (rotary.scaling == RotaryScaling::longrope) fields["original_max_position_embeddings"] = rotary.original_context;
}

}  // namespace

extern const Family family_phi3{"phi3",
                                "Phi3ForCausalLM",
                                read_phi3,
                                write_phi3,
                                {.qkv = "qkv_proj", .gate_up = "gate_up_proj"},
                                {.joins_rotated = true}};

}  // namespace ridgepoint
