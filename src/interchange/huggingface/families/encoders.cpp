// BERT, an encoder: tokens see all others, norms read the sums of the stream, and the head is that of the masked
// language model, the embedding behind a layer of its own. RoBERTa: BERT whose positions begin after that of the
// padding. ViT, an encoder of images with the head of their classification; a file has no names of classes but those of
// id2label.
#include <fmt/format.h>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void read_or_write_encoder(FamilyFields& fields, TransformerConfig& c, const DecoderSizes& sizes) {
  fields.decoder(c, {.sizes = sizes, .activation = "gelu", .theta = std::nullopt, .epsilon_key = "layer_norm_eps"});
  Architecture& a = c.architecture;
  a.norm = Norm::layer_norm;
  a.placement = NormPlacement::of_sums;
  a.positions = Positions::learned;
  a.is_causal = a.final_norm = a.gated = false;
  a.embedding_norm = a.head_transform = true;
  a.projection_bias = a.output_bias = a.feed_forward_bias = a.head_bias = true;
  fields.size("type_vocab_size", a.token_types, 2);
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) fields.write(key, 0.0);
  ConfigFields* in = fields.in();
  if (in == nullptr) return;
  note_dropout(*in, {"hidden_dropout_prob", "attention_probs_dropout_prob"}, 0.1);
  in->note("the loss is that of the masked language model: of the tokens that have targets");
  if (!a.tied_head) in->fail("tie_word_embeddings", "is false; the head of this family is the embedding");
  if (in->text("position_embedding_type", "absolute") != "absolute")
    in->fail("position_embedding_type", "is not absolute; relative positions are not supported");
  in->refuse("is_decoder", "a BERT that is a decoder is not supported");
  // Of the first files, and of a layer behind the encoder that the loss does not read.
  fields.skip({"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
               "pooler_size_per_head", "pooler_type"});
}

void bert(FamilyFields& fields, TransformerConfig& c) { read_or_write_encoder(fields, c, usual::bert); }

void roberta(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  std::int64_t unused = a.unused_positions;
  if (fields.in() == nullptr) a.max_context += unused;
  read_or_write_encoder(fields, c, usual::roberta);
  if (ConfigFields* in = fields.in()) {
    unused = static_cast<std::int64_t>(in->not_negative("pad_token_id", 1)) + 1;
    if (a.max_context <= unused)
      in->fail("max_position_embeddings", "is {}, but positions begin at {}, after that of pad_token_id", a.max_context,
               unused);
    a.unused_positions = unused;
    a.max_context -= unused;
  }
  fields.write("pad_token_id", unused - 1);
}

constexpr WeightNames names_of_encoder(std::string_view model) {
  WeightNames names = {.embedding = "embeddings.word_embeddings",
                       .positions = "embeddings.position_embeddings",
                       .layers = "encoder.layer",
                       .embedding_norm = "embeddings.LayerNorm",
                       .token_types = "embeddings.token_type_embeddings",
                       .head = "cls.predictions",
                       .head_transform = "transform.dense",
                       .head_norm = "transform.LayerNorm",
                       .attention = "attention",
                       .q = "self.query",
                       .k = "self.key",
                       .v = "self.value",
                       .output = "output.dense",
                       .feed_forward = "",
                       .up = "intermediate.dense",
                       .down = "output.dense",
                       .norms = {"attention.output.LayerNorm", "", "output.LayerNorm", ""}};
  names.model = model;
  return names;
}

constexpr WeightNames of_roberta(WeightNames names) {
  names.head = "lm_head";
  names.head_transform = "dense";
  names.head_norm = "layer_norm";
  return names;
}

constexpr std::int64_t kMostPixels = 65536;  // of a side

// A number, or the list of two equal ones.
std::int64_t side(ConfigFields& fields, std::string_view key, std::int64_t absent) {
  const Json* value = fields.find(key);
  if (value == nullptr || !value->is_array()) return fields.size(key, absent, kMostPixels);
  const bool is_square = value->size() == 2 && (*value)[0] == (*value)[1] && (*value)[0].is_number_unsigned();
  const auto found = is_square ? (*value)[0].get<std::uint64_t>() : 0;
  if (found < 1 || found > static_cast<std::uint64_t>(kMostPixels))
    fields.fail(key, "must be one number, or two equal ones; other images are not supported");
  return static_cast<std::int64_t>(found);
}

std::int64_t classes(ConfigFields& fields) {
  const Json* labels = fields.find("id2label");
  if (labels != nullptr && labels->is_object() && !labels->empty()) return static_cast<std::int64_t>(labels->size());
  return fields.size("num_labels", 2);
}

void vit(FamilyFields& fields, TransformerConfig& c) {
  fields.decoder(c, {.sizes = usual::vit,
                     .activation = "gelu",
                     .theta = std::nullopt,
                     .epsilon_key = "layer_norm_eps",
                     .vocab_key = "num_labels"});
  Architecture& a = c.architecture;
  a.norm = Norm::layer_norm;
  a.positions = Positions::learned;
  a.is_causal = a.gated = a.tied_head = false;
  a.output_bias = a.feed_forward_bias = a.head_bias = true;
  fields.flag("qkv_bias", a.projection_bias, true);
  if (ConfigFields* in = fields.in()) {
    c.vocab = classes(*in);
    a.images = {.size = side(*in, "image_size", 224),
                .patch = side(*in, "patch_size", 16),
                .channels = in->size("num_channels", 3, kMostPixels)};
    if (a.images.patch > a.images.size)
      in->fail("patch_size", "is {}, but images have {} pixels a side", a.images.patch, a.images.size);
    a.max_context = a.images.patches() + 1;
    note_dropout(*in, {"hidden_dropout_prob", "attention_probs_dropout_prob"});
    in->note(fmt::format("an image is {} tokens, and the loss is that of its class", a.max_context));
    for (const char* key : {"encoder_stride", "pooler_act", "pooler_output_size", "tie_word_embeddings"}) in->skip(key);
  }
  fields.write("image_size", a.images.size);
  fields.write("patch_size", a.images.patch);
  fields.write("num_channels", a.images.channels);
}

}  // namespace

extern const Family family_bert{
    "bert",
    "BertForMaskedLM",
    bert,
    names_of_encoder("bert."),
    {},
    {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias", "cls.predictions.decoder.weight",
     "cls.predictions.decoder.bias", "cls.seq_relationship.weight", "cls.seq_relationship.bias"}};
extern const Family family_roberta{"roberta",
                                   "RobertaForMaskedLM",
                                   roberta,
                                   of_roberta(names_of_encoder("roberta.")),
                                   {},
                                   {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias",
                                    "lm_head.decoder.weight", "lm_head.decoder.bias"}};

extern const Family family_vit{"vit",
                               "ViTForImageClassification",
                               vit,
                               {.model = "vit.",
                                .embedding = "embeddings.patch_embeddings.projection",
                                .layers = "encoder.layer",
                                .final_norm = "layernorm",
                                .head = "classifier",
                                .attention = "attention",
                                .q = "attention.query",
                                .k = "attention.key",
                                .v = "attention.value",
                                .output = "output.dense",
                                .feed_forward = "",
                                .up = "intermediate.dense",
                                .down = "output.dense",
                                .norms = {"layernorm_before", "", "layernorm_after", ""}},
                               kNotModelled,
                               {"pooler.dense.weight", "pooler.dense.bias", "embeddings.mask_token"}};

}  // namespace ridgepoint
