// BERT, an encoder: tokens see all others, norms read the sums of the stream, and the head is that of the masked
// language model, the embedding behind a layer of its own. RoBERTa: BERT whose positions begin after that of the
// padding.
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

void read_or_write_encoder(FamilyFields& fields, TransformerConfig& c, std::int64_t absent_vocab) {
  fields.decoder(c, {.vocab = absent_vocab,
                     .hidden = 768,
                     .intermediate = 3072,
                     .layers = 12,
                     .heads = 12,
                     .max_positions = 512,
                     .epsilon = 1e-12,
                     .tied = true,
                     .activation = "gelu",
                     .theta = std::nullopt,
                     .epsilon_key = "layer_norm_eps"});
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

void bert(FamilyFields& fields, TransformerConfig& c) { read_or_write_encoder(fields, c, 30522); }

void roberta(FamilyFields& fields, TransformerConfig& c) {
  Architecture& a = c.architecture;
  std::int64_t unused = a.unused_positions;
  if (fields.in() == nullptr) a.max_context += unused;
  read_or_write_encoder(fields, c, 50265);
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

}  // namespace ridgepoint
