// Layer norms and learned positions: GPT-2, with biases everywhere and the embedding as head, OPT, GPTBigCode with one
// head of keys and values, and GPT-Neo, whose every second layer has a window.
#include <array>
#include <string_view>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

constexpr double kDropout = 0.1;  // where a file has no dropout

void learned_positions(Architecture& a) {
  a.norm = Norm::layer_norm;
  a.positions = Positions::learned;
  a.gated = false;
  a.feed_forward_bias = a.output_bias = true;
}

// Whether scores are divided by the root of the head size.
void scale_attn_weights(FamilyFields& fields, Architecture& a) {
  fields.choice<double>("scale_attn_weights", a.query_scale, 0, 1, true);
}

void gpt2(FamilyFields& fields, TransformerConfig& c) {
  ConfigFields* in = fields.in();
  Architecture& a = c.architecture;
  learned_positions(a);
  a.projection_bias = true;
  fields.size("vocab_size", c.vocab, 50257);
  fields.size("n_embd", c.d_model, 768);
  fields.size("n_layer", c.layers, 12, kMostLayers);
  fields.size("n_head", c.heads, 12);
  if (in != nullptr) {
    c.d_ff = in->optional_size("n_inner", std::nullopt).value_or(4 * c.d_model);
    if (c.d_model % c.heads != 0) in->fail("n_head", "is {} and does not divide n_embd, {}", c.heads, c.d_model);
  }
  fields.write("n_inner", c.d_ff);
  fields.size("n_positions", a.max_context, 1024);
  fields.positive("layer_norm_epsilon", a.norm_epsilon, 1e-5);
  if (in != nullptr) a.activation = read_activation(*in, "activation_function", "gelu_new");
  fields.write("activation_function",
               a.activation == Activation::gelu_tanh ? "gelu_new" : activation_name(a.activation));
  scale_attn_weights(fields, a);
  fields.flag("tie_word_embeddings", a.tied_head, true);
  fields.refuse("scale_attn_by_inverse_layer_idx", "scores scaled by the number of their layer are not supported");
  fields.skip({"n_ctx"});                    // n_positions before 2022
  fields.skip({"reorder_and_upcast_attn"});  // the order of a product with a number
  if (in != nullptr) note_dropout(*in, {"resid_pdrop", "embd_pdrop", "attn_pdrop"}, kDropout);
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) fields.write(key, 0.0);
}

void opt(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::opt,
                     .intermediate_key = "ffn_dim",
                     .activation_key = "activation_function",
                     .activation = "relu",
                     .theta = std::nullopt,
                     .epsilon_key = "layer_norm_eps"});
  Architecture& a = c.architecture;
  learned_positions(a);
  a.unused_positions = 2;
  fields.flag("enable_bias", a.projection_bias, true);
  a.output_bias = a.feed_forward_bias = a.projection_bias;
  fields.flag("layer_norm_elementwise_affine", a.norm_weights, true);
  fields.write("word_embed_proj_dim", c.d_model);
  fields.write("dropout", 0.0);
  ConfigFields* in = fields.in();
  if (in == nullptr) return;
  if (!in->flag("do_layer_norm_before", true))
    in->fail("do_layer_norm_before", "is false; norms after are not supported");
  if (in->size("word_embed_proj_dim", c.d_model) != c.d_model)
    in->fail("word_embed_proj_dim", "is another width than hidden_size; projected embeddings are not supported");
  in->refuse("_remove_final_layer_norm", "a model without its last norm is not supported");
  in->skip("layerdrop");
}

constexpr DecoderDefaults kGpt = {.sizes = usual::gpt_bigcode,
                                  .intermediate_key = "n_inner",
                                  .activation_key = "activation_function",
                                  .activation = "gelu_pytorch_tanh",
                                  .theta = std::nullopt,
                                  .hidden_key = "n_embd",
                                  .layers_key = "n_layer",
                                  .heads_key = "n_head",
                                  .positions_key = "n_positions",
                                  .epsilon_key = "layer_norm_epsilon",
                                  .wide_by_four = true};

void gpt_bigcode(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, kGpt);
  Architecture& a = c.architecture;
  learned_positions(a);
  a.projection_bias = true;
  bool has_one_key = a.kv_heads == 1;
  fields.flag("multi_query", has_one_key, true);
  a.kv_heads = has_one_key && c.heads > 1 ? 1 : 0;
  scale_attn_weights(fields, a);
  // Of an order of operations, or of generation.
  fields.skip({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner", "max_batch_size",
               "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache", "validate_runner_input", "n_ctx"});
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) fields.write(key, 0.0);
}

// The kinds of layers: [[["global", "local"], 12]], or one by one.
std::vector<bool> local_layers(ConfigFields& fields, std::int64_t layers) {
  constexpr const char* kKey = "attention_types";
  const auto most = static_cast<std::uint64_t>(layers);
  std::vector<bool> local;
  const Json* types = fields.find(kKey);
  if (types == nullptr) {
    local = windows_but_every(2, layers);
    local.flip();
    return local;
  }
  for (const Json& group : *types) {
    const bool is_group = group.is_array() && group.size() == 2 && group[0].is_array() && group[1].is_number_integer();
    if (!is_group) fields.fail(kKey, "must be a list of kinds of layers with their repeats");
    const auto times = group[1].get<std::uint64_t>();
    if (times > most || group[0].size() > most || local.size() + times * group[0].size() > most)
      fields.fail(kKey, "has more layers than the {} of the model", layers);
    for (std::uint64_t i = 0; i < times; ++i) {
      for (const Json& kind : group[0]) {
        if (kind != "global" && kind != "local") fields.fail(kKey, "has a layer that is neither global nor local");
        local.push_back(kind == "local");
      }
    }
  }
  if (local.size() != most) fields.fail(kKey, "has {} layers; there are {}", local.size(), layers);
  return local;
}

void gpt_neo(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::gpt_neo,
                     .activation_key = "activation_function",
                     .activation = "gelu_new",
                     .theta = std::nullopt,
                     .layers_key = "num_layers",
                     .heads_key = "num_heads",
                     .epsilon_key = "layer_norm_epsilon",
                     .wide_by_four = true});
  Architecture& a = c.architecture;
  learned_positions(a);
  a.query_scale = 1;
  if (ConfigFields* in = fields.in()) {
    a.window = in->size("window_size", 256);
    a.window_layers = pattern_of(local_layers(*in, c.layers), true);
    in->skip("attention_layers");
  }
  fields.write("window_size", a.window);
  Json names = Json::array();
  for (std::int64_t layer = 0; layer < c.layers; ++layer) names.push_back(a.has_window(layer) ? "local" : "global");
  fields.write("attention_types", Json::array({Json::array({names, 1})}));
  for (const char* key : {"resid_dropout", "embed_dropout"}) fields.write(key, 0.0);
}

constexpr WeightNames kGptNames = {.model = "transformer.",
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
                                   .norms_in_between = true};

constexpr std::array<std::string_view, 8> kMasks = {".attn.bias", ".attn.masked_bias"};  // once stored by transformers

constexpr WeightNames transposed(WeightNames names) {
  names.is_transposed = true;
  return names;
}
constexpr WeightNames with_projections_apart(WeightNames names) {
  names.attention = "attn.attention";
  names.qkv = {};
  names.output = "out_proj";
  return names;
}
constexpr WeightNames by_group(WeightNames names) {
  names.qkv_by_group = true;
  return names;
}

}  // namespace

extern const Family family_gpt2{
    "gpt2", "GPT2LMHeadModel", gpt2, transposed(kGptNames), {.gpt2_blocks = true, .has_plain_gelu = true}, kMasks};
extern const Family family_opt{"opt",
                               "OPTForCausalLM",
                               opt,
                               {.model = "model.decoder.",
                                .positions = "embed_positions",
                                .final_norm = "final_layer_norm",
                                .output = "out_proj",
                                .feed_forward = "",
                                .up = "fc1",
                                .down = "fc2",
                                .norms = {"self_attn_layer_norm", "", "final_layer_norm", ""}},
                               {.scales_queries = true}};
extern const Family family_gpt_bigcode{"gpt_bigcode",       "GPTBigCodeForCausalLM", gpt_bigcode,
                                       by_group(kGptNames), {.keeps_mask = true},    kMasks};
extern const Family family_gpt_neo{
    "gpt_neo",
    "GPTNeoForCausalLM",
    gpt_neo,
    with_projections_apart(kGptNames),
    {.gpt2_blocks = true, .has_plain_gelu = true, .scores = ScoresCode::wide_masked, .lacks_sdpa = true},
    {".attention.bias", ".attention.masked_bias"}};

}  // namespace ridgepoint
