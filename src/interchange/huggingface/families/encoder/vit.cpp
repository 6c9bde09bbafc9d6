// ViT, an encoder of images with the head of their classification. A file has no names of classes but those of
// id2label.
#include <fmt/format.h>

#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

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
  fields.decoder(c, {.vocab = 2,
                     .hidden = 768,
                     .intermediate = 3072,
                     .layers = 12,
                     .heads = 12,
                     .max_positions = 1,
                     .epsilon = 1e-12,
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
