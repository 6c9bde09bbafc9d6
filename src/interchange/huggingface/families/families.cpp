// The families that are read, and what is missing for others that people have.
#include <algorithm>
#include <array>

#include "interchange/huggingface/families/family.h"

namespace ridgepoint {
namespace {

constexpr std::array<Family, 12> kFamilies = {{
    {"gpt2", "GPT2LMHeadModel", read_gpt2, write_gpt2},
    {"llama", "LlamaForCausalLM", read_llama, write_llama},
    {"mistral", "MistralForCausalLM", read_mistral, write_mistral},
    {"mixtral", "MixtralForCausalLM", read_mixtral, write_mixtral},
    {"qwen2", "Qwen2ForCausalLM", read_qwen2, write_qwen2},
    {"qwen3", "Qwen3ForCausalLM", read_qwen3, write_qwen3},
    {"qwen2_moe", "Qwen2MoeForCausalLM", read_qwen2_moe, write_qwen2_moe},
    {"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe, write_qwen3_moe},
    {"gemma2", "Gemma2ForCausalLM", read_gemma2, write_gemma2},
    {"gemma3_text", "Gemma3ForCausalLM", read_gemma3, write_gemma3},
    {"phi3", "Phi3ForCausalLM", read_phi3, write_phi3},
    {"olmo2", "Olmo2ForCausalLM", read_olmo2, write_olmo2},
}};

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

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  const auto* found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == kFamilies.end() ? nullptr : &*found;
}

std::string_view lacking_for(std::string_view model_type) {
  const auto* found = std::ranges::find(kLacking, model_type, &Lacking::model_type);
  return found == std::end(kLacking) ? std::string_view() : found->what;
}

}  // namespace ridgepoint
