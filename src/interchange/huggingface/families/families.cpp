// The families that are read, and what is missing for others that people have.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "interchange/huggingface/families/family.h"
#include "interchange/safetensors_names.h"
#include "ridgepoint/error.h"

namespace ridgepoint {

#define RIDGEPOINT_FAMILIES(EACH) \
  EACH(gpt2)                      \
  EACH(llama)                     \
  EACH(mistral)                   \
  EACH(mixtral) EACH(qwen2) EACH(qwen3) EACH(qwen2_moe) EACH(qwen3_moe) EACH(gemma2) EACH(gemma3) EACH(phi3) EACH(olmo2)
#define DECLARE(name) extern const Family family_##name;
RIDGEPOINT_FAMILIES(DECLARE)
#undef DECLARE

namespace {

struct Lacking {
  std::string_view model_type;
  std::string_view what;
};
constexpr Lacking kLacking[] = {
    {"gemma", "only one norm a block with 1 + weight"},
    {"gemma3n", "per-layer embeddings"},
    {"bert", "attention to later tokens"},
    {"roberta", "attention to later tokens"},
    {"modernbert", "attention to later tokens"},
    {"t5", "an encoder and relative positions"},
    {"bart", "an encoder"},
    {"whisper", "an encoder"},
    {"opt", "learned positions with an offset"},
    {"bloom", "ALiBi positions"},
    {"mpt", "ALiBi positions"},
    {"falcon", "attention and feed-forward side by side"},
    {"gptj", "attention and feed-forward side by side"},
    {"gpt_neox", "attention and feed-forward side by side"},
    {"phi", "attention and feed-forward side by side"},
    {"cohere", "attention and feed-forward side by side"},
    {"cohere2", "attention and feed-forward side by side"},
    {"gpt_neo", "windows without rotary embedding"},
    {"gpt_bigcode", "one head of keys and values beside learned positions"},
    {"starcoder2", "layer norms beside rotary embedding"},
    {"stablelm", "layer norms beside rotary embedding"},
    {"olmo", "norms without weights"},
    {"olmoe", "norms of whole queries beside experts"},
    {"granite", "multipliers of residuals and logits"},
    {"granitemoe", "multipliers of residuals and logits"},
    {"smollm3", "layers without positions"},
    {"llama4", "layers without positions and chunked attention"},
    {"gpt_oss", "attention sinks"},
    {"phimoe", "sparse mixer routing"},
    {"dbrx", "packed experts"},
    {"deepseek_v2", "multi-head latent attention"},
    {"deepseek_v3", "multi-head latent attention"},
    {"minicpm3", "multi-head latent attention"},
    {"kimi_k2", "multi-head latent attention"},
    {"qwen3_next", "linear attention"},
    {"jamba", "state-space layers"},
    {"mamba", "state-space layers"},
    {"mamba2", "state-space layers"},
    {"falcon_mamba", "state-space layers"},
    {"rwkv", "recurrent layers"},
    {"chatglm", "its own code, which transformers downloads"},
    {"glm4", "rotary embedding of a part of the head in adjacent pairs"},
    {"qwen2_vl", "images"},
    {"qwen2_5_vl", "images"},
    {"llava", "images"},
    {"mllama", "images"},
};

}  // namespace

std::span<const Family* const> families() {
#define POINT(name) &family_##name,
  static constexpr const Family* kFamilies[] = {RIDGEPOINT_FAMILIES(POINT)};
#undef POINT
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  const auto found = std::ranges::find(families(), model_type, &Family::model_type);
  return found == families().end() ? nullptr : *found;
}

const Family& family_of(const TransformerConfig& config) {
  const std::string& type = config.architecture.family;
  const Family* family = find_family(type.empty() ? "llama" : type);
  if (family == nullptr) throw Error(fmt::format("the family {} is not supported", quote_name(type)));
  return *family;
}

std::string_view lacking_for(std::string_view model_type) {
  const auto* found = std::ranges::find(kLacking, model_type, &Lacking::model_type);
  return found == std::end(kLacking) ? std::string_view() : found->what;
}

}  // namespace ridgepoint
