// The families that are read, and what is missing for others that people have.
#include <algorithm>
#include <iterator>

#include "core/text/throw_error.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {

#define RIDGEPOINT_SIZED_FAMILY(name, ...) RIDGEPOINT_FAMILY(name)
#define RIDGEPOINT_FAMILY(name) extern const Family family_##name;
#include "interchange/huggingface/families/families.def"
#undef RIDGEPOINT_FAMILY

namespace {

struct Lacking {
  std::string_view model_type;
  std::string_view what;
};
constexpr Lacking kLacking[] = {
    {"modernbert", "windows to both sides"},
    {"t5", "a decoder that attends to an encoder, and relative positions"},
    {"bart", "a decoder that attends to an encoder"},
    {"whisper", "a decoder that attends to an encoder"},
    {"jamba", "state-space layers of the first Mamba"},
    {"mamba", "state-space layers of the first Mamba"},
    {"falcon_mamba", "state-space layers of the first Mamba"},
    {"rwkv", "recurrent layers"},
};

// Where the fields of the text model lie: of the usual ones in text_config, of older ones beside those of the images.
constexpr OuterModel kOuter[] = {
    {"gemma3", "text_config", "gemma3_text"},
    {"llava", "text_config", "llama"},
    {"llava_next", "text_config", "llama"},
    {"llava_llama", "llm_cfg", "llama"},
    {"mistral3", "text_config", "mistral"},
    {"ministral3", "text_config", "ministral3"},
    {"pixtral", "text_config", "mistral"},
    {"qwen2_vl", "text_config", "qwen2"},
    {"qwen2_5_vl", "text_config", "qwen2"},
    {"qwen3_vl", "text_config", "qwen3"},
    {"qwen3_vl_moe", "text_config", "qwen3_moe"},
    {"qwen2_5_omni", "thinker_config.text_config", "qwen2"},
    {"qwen3_omni_moe", "thinker_config.text_config", "qwen3_moe"},
    {"qwen2_vl_text", "", "qwen2", true},
    {"qwen2_5_vl_text", "", "qwen2", true},
    {"qwen2_5_omni_text", "", "qwen2", true},
    {"qwen3_vl_text", "", "qwen3", true},
    {"qwen3_vl_moe_text", "", "qwen3_moe", true},
    {"qwen3_omni_moe_text", "", "qwen3_moe", true},
    {"internvl", "text_config", "qwen2"},
    {"internvl_chat", "llm_config", ""},
    {"mllama", "text_config", "mllama_text_model"},
    {"mllama_text_model", "", "llama"},
    {"llama4", "text_config", "llama4_text"},
    {"glm4v", "text_config", "glm4"},
    {"glm4v_text", "", "glm4", true},
    {"glm4v_moe", "text_config", "glm4_moe"},
    {"qwen3_5", "text_config", "qwen3_5_text"},
    {"qwen3_5_moe", "text_config", "qwen3_5_moe_text"},
    {"gemma3n", "text_config", "gemma3n_text"},
    {"gemma4", "text_config", "gemma4_text"},
    {"lfm2_vl", "text_config", "lfm2"},
    {"minicpmv", "", "llama"},
    {"minicpmv4_6", "text_config", ""},
    {"minimax_m3_vl", "text_config", "minimax_m3_vl_text", false, true},
    {"bunny-phi", "", "phi"},
    {"phi3_v", "", "phi3"},
    {"omni_speech_llama", "", "llama"},
    {"kimi_k2", "", "deepseek_v3", true},
    {"phi-msft", "", "phi", true},
    {"xlm-roberta", "", "roberta", true},
    {"camembert", "", "roberta", true},
};

constexpr std::string_view kTextModules[] = {"language_model.", "model.language_model.", "thinker.", "llm."};
constexpr std::string_view kOtherModules[] = {
    "vision_tower.", "multi_modal_projector.", "visual.",      "vision_model.", "audio_tower.", "vpm.",
    "mlp1.",         "embed_vision.",          "embed_audio.", "mtp."};

}  // namespace

std::span<const Family* const> families() {
#define RIDGEPOINT_FAMILY(name) &family_##name,
  static constexpr const Family* kFamilies[] = {
#include "interchange/huggingface/families/families.def"
  };
#undef RIDGEPOINT_FAMILY
#undef RIDGEPOINT_SIZED_FAMILY
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  const auto found = std::ranges::find(families(), model_type, &Family::model_type);
  return found == families().end() ? nullptr : *found;
}

const OuterModel* find_outer_model(std::string_view model_type) {
  const auto* found = std::ranges::find(kOuter, model_type, &OuterModel::model_type);
  return found == std::end(kOuter) ? nullptr : found;
}

std::span<const std::string_view> modules_of_text() { return kTextModules; }
std::span<const std::string_view> modules_beside_text() { return kOtherModules; }

const Family& family_of(const TransformerConfig& config) {
  const std::string& type = config.architecture.family;
  const Family* family = find_family(type.empty() ? "llama" : type);
  if (family == nullptr) throw_error("the family {} is not supported", quote_name(type));
  return *family;
}

std::string_view lacking_for(std::string_view model_type) {
  const auto* found = std::ranges::find(kLacking, model_type, &Lacking::model_type);
  return found == std::end(kLacking) ? std::string_view() : found->what;
}

}  // namespace ridgepoint
