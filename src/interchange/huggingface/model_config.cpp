#include "interchange/huggingface/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text/nearest.h"
#include "core/text/throw_error.h"
#include "core/text/words.h"
#include "interchange/huggingface/config/config_fields.h"
#include "interchange/huggingface/config/quantisation.h"
#include "interchange/huggingface/families/decoder.h"
#include "interchange/huggingface/families/family.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint {
namespace {

constexpr const char* kConfigName = "config.json";

// Fields of every family that a training step does not depend on: names, tokens with a meaning, generation of text, the
// types of files.
constexpr std::string_view kWithoutEffect =
    "model_type architectures _name_or_path name_or_path transformers_version torch_dtype dtype bos_token_id "
    "eos_token_id pad_token_id sep_token_id cls_token_id unk_token_id decoder_start_token_id use_cache "
    "initializer_range auto_map tokenizer_class task_specific_params id2label label2id num_labels problem_type "
    "finetuning_task output_attentions output_hidden_states return_dict output_past torchscript use_bfloat16 "
    "tf_legacy_loss tie_encoder_decoder chunk_size_feed_forward cross_attention_hidden_size summary_type "
    "summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout classifier_dropout "
    "cache_implementation attn_implementation _attn_implementation _attn_implementation_autoset "
    "_attn_implementation_internal gradient_checkpointing _from_model_config _commit_hash is_decoder prefix "
    "use_mems_eval max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty "
    "temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size "
    "encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores return_dict_in_generate "
    "forced_bos_token_id forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens "
    "begin_suppress_tokens";

struct Refused {
  std::string_view key;
  std::string_view why;
};
constexpr Refused kRefused[] = {
    {"compression_config", "compressed weights are not supported"},
    {"pruned_heads", "pruned heads are not supported"},
    {"is_encoder_decoder", "a decoder that attends to an encoder is not supported"},
    {"add_cross_attention", "attention to an encoder is not supported"},
};

const Family& family_of(ConfigFields& fields) {
  const std::string type = fields.text("model_type", "");
  if (type.empty()) {
    const Json* classes = fields.find("architectures");
    fields.fail("model_type", "is missing, and {}, so the family is not known",
                classes == nullptr ? "'architectures', too"
                                   : "'architectures' names no class that is known: " + printable(dump_json(*classes)));
  }
  if (const Family* family = find_family(type)) return *family;
  const std::string_view lacking = lacking_for(type);
  std::vector<std::string_view> names;
  for (const Family* family : families()) names.push_back(family->model_type);
  // A family that is known is no misspelt one.
  const std::string near = lacking.empty() ? nearest(std::string_view(type).substr(0, 64), names) : "";
  fields.fail("model_type", "is {}, a family that is not supported{}{}; docs/models.md lists the {} that are",
              quote_name(type), lacking.empty() ? "" : fmt::format(": it has {}", lacking),
              near.empty() ? "" : fmt::format("; the nearest is '{}'", near), names.size());
}

// Fields that change what a model computes, in the families that have them. One that a family does not read, with a
// value, is of another model than the family's.
constexpr std::string_view kTelling =
    "num_experts num_local_experts n_routed_experts moe_num_experts num_experts_per_tok moe_layers kv_lora_rank "
    "q_lora_rank index_topk linear_num_key_heads mamba_d_state state_size hybrid_override_pattern conv_L_cache "
    "attn_output_gate hc_mult hidden_size_per_layer_input num_kv_shared_layers attention_k_eq_v enable_moe_block "
    "altup_num_inputs laurel_rank cross_attention_layers no_rope_layers no_rope_layer_interval attention_chunk_size "
    "use_qk_norm qk_layernorm clip_qkv alibi logit_scale logits_scaling embedding_multiplier residual_multiplier "
    "attention_multiplier scale_emb scale_depth final_logit_softcapping attn_logit_softcapping swiglu_limit "
    "use_parallel_residual parallel_attn";

void refuse_telling(ConfigFields& fields, std::string_view family, const Architecture& a) {
  if (a.projection_norm != ProjectionNorm::none) fields.skip("use_qk_norm");  // the family has these norms always
  for (const std::string_view key : words_of(kTelling)) {
    if (fields.read().find(key) == fields.read().end())
      fields.refuse(key,
                    fmt::format("models of the family {} have nothing of that kind, so this is another model", family));
  }
}

// Without model_type the class of the model says the family.
void name_by_class(Json& fields) {
  const auto type = fields.find("model_type");
  // The first files of OLMo's own code have the model_type that transformers took later.
  const bool is_old_olmo = type != fields.end() && *type == "olmo" && fields.contains("d_model");
  if (is_old_olmo) fields["model_type"] = "hf_olmo";
  const auto classes = fields.find("architectures");
  if (classes == fields.end() || !classes->is_array() || classes->empty() || !(*classes)[0].is_string()) return;
  const auto family = std::ranges::find(families(), (*classes)[0].get<std::string>(), &Family::class_name);
  if (family == families().end()) return;
  // OpenMoE's own code has the fields of Llama's class, and its files have Llama's model_type.
  const bool is_borrowed = type != fields.end() && *type == "llama" && (*family)->model_type == "openmoe";
  const bool is_missing = type == fields.end() || (type->is_string() && type->get<std::string>().empty());
  if (is_missing || is_borrowed) fields["model_type"] = (*family)->model_type;
}

// The object at the end of "a.b", or null where one of them is missing or empty.
const Json* object_at(const Json& fields, std::string_view place, std::string_view what) {
  const Json* at = &fields;
  while (!place.empty()) {
    const std::string key(place.substr(0, place.find('.')));
    place.remove_prefix(std::min(place.size(), key.size() + 1));
    const auto found = at->find(key);
    if (found == at->end() || found->is_null()) return nullptr;
    if (!found->is_object())
      throw_error("{}: '{}' is a value of the type {}; it must be an object", what, key, found->type_name());
    at = &*found;
  }
  return at == &fields || at->empty() ? nullptr : at;
}

// Layers that only attend to images do nothing to text.
void leave_out_layers_of_images(Json& fields, std::vector<std::string>& notes) {
  const auto layers = fields.find("cross_attention_layers");
  const auto count = fields.find("num_hidden_layers");
  if (layers == fields.end() || !layers->is_array() || count == fields.end() || !count->is_number_integer()) return;
  const auto left_out = static_cast<std::int64_t>(layers->size());
  notes.push_back(fmt::format("{} of the {} layers attend to images and are left out", left_out, count->dump()));
  *count = count->get<std::int64_t>() - left_out;
  fields.erase("cross_attention_layers");
}

// The fields of the text model of a model that also reads images or sound, or that has another name.
Json text_model_of(Json fields, std::string_view what, std::vector<std::string>& notes) {
  name_by_class(fields);
  constexpr int kMostTimes = 4;  // one in another; rows of the table are in no circle
  for (int times = 0; times < kMostTimes; ++times) {
    const auto type = fields.find("model_type");
    if (type == fields.end() || !type->is_string()) return fields;
    const OuterModel* outer = find_outer_model(type->get<std::string>());
    if (outer == nullptr) return fields;
    const Json* inner = object_at(fields, outer->place, what);
    const bool is_family = find_family(outer->model_type) != nullptr;
    if (inner == nullptr && is_family) return fields;
    if (!outer->is_name && notes.empty())
      notes.emplace_back("only the text model is read, without the part for images or sound");
    if (outer->model_type.starts_with("mllama") && inner == nullptr) leave_out_layers_of_images(fields, notes);
    if (inner == nullptr) {
      if (const auto empty = fields.find(outer->place); empty != fields.end() && empty->is_object()) {
        notes.push_back(fmt::format("{} is empty: what the file says nowhere else is as the family has it by default",
                                    outer->place));
        fields.erase(empty);
      }
      fields["model_type"] = outer->family;
      continue;
    }
    Json found = *inner;
    if (!found.contains("model_type") || outer->is_always) found["model_type"] = outer->family;
    const auto quantised = fields.find("quantization_config");
    if (quantised != fields.end() && !found.contains("quantization_config")) found["quantization_config"] = *quantised;
    fields = std::move(found);
  }
  return fields;
}

void note_unread(const ConfigFields& fields, std::vector<std::string>& notes) {
  const std::vector<std::string_view> without_effect = words_of(kWithoutEffect);
  std::vector<std::string> unknown;
  for (const std::string& key : fields.unread()) {
    if (std::ranges::find(without_effect, key) == without_effect.end()) unknown.push_back(quote_name(key));
  }
  if (unknown.empty()) return;
  constexpr std::size_t kMostNamed = 12;
  const std::size_t count = unknown.size();
  if (count > kMostNamed) unknown.resize(kMostNamed);
  notes.push_back(fmt::format("ignored, because this program does not know {}: {}{}", count == 1 ? "it" : "them",
                              fmt::join(unknown, ", "), count > kMostNamed ? ", ..." : ""));
}

void check_overrides(const std::vector<ConfigOverride>& overrides, const ConfigFields& fields,
                     std::string_view family) {
  const std::vector<std::string_view> known(fields.read().begin(), fields.read().end());
  for (const ConfigOverride& one : overrides) {
    const std::string_view key = std::string_view(one.key).substr(0, one.key.find('.'));
    if (std::ranges::find(known, key) != known.end()) continue;
    throw_error(ErrorKind::usage, "--config-override: {} is no field that is read of a model of the family {}{}",
                quote_name(key), family, hint(key.substr(0, 64), known));
  }
}

// The name of a repository, "owner/name", or empty: other programs write paths of other machines into the field.
std::string repository_name(const Json& fields) {
  const auto found = fields.find("_name_or_path");
  if (found == fields.end() || !found->is_string()) return "";
  const std::string name = found->get<std::string>();
  constexpr std::size_t kLongestName = 96;
  if (name.size() > kLongestName || std::ranges::count(name, '/') != 1 || name.starts_with('/') ||
      name.starts_with('.') || name.ends_with('/'))
    return "";
  return printable(name);
}

// The folder's name. In the cache of huggingface_hub, models--OWNER--NAME/snapshots/HASH, it is NAME; links stay,
// because they lead to files named after their content.
std::string folder_name(const std::filesystem::path& file) {
  const std::filesystem::path folder = std::filesystem::absolute(file).lexically_normal().parent_path();
  std::string name = folder.filename().string();
  if (folder.parent_path().filename() == "snapshots") {
    name = folder.parent_path().parent_path().filename().string();
    const std::size_t owner = name.rfind("--");
    if (owner != std::string::npos) name = name.substr(owner + 2);
  }
  return name.empty() ? "model" : printable(name);
}

}  // namespace

std::filesystem::path config_file_of(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::string name = path.filename().string();
  if (std::filesystem::is_directory(path, ignored)) {
    std::filesystem::path file = path / kConfigName;
    if (!std::filesystem::exists(file, ignored)) throw_error("the folder '{}' has no config.json", path.string());
    return file;
  }
  if (!std::filesystem::exists(path, ignored)) throw_error("there is no file '{}'", path.string());
  if (!name.ends_with(".safetensors") && !name.ends_with(".index.json")) return path;
  std::filesystem::path file = path.parent_path() / kConfigName;
  if (!std::filesystem::exists(file, ignored))
    throw_error("there is no config.json beside '{}', which says what its tensors are", path.string());
  return file;
}

ModelConfig parse_model_config(Json json, std::string name, const std::vector<ConfigOverride>& overrides,
                               std::string_view what) {
  ModelConfig model;
  override_fields(overrides, json);
  json = text_model_of(std::move(json), what, model.notes);
  override_fields(overrides, json);  // those of the text model
  try {
    ConfigFields fields(std::move(json));
    const Family& family = family_of(fields);
    for (const auto& [key, why] : kRefused) fields.refuse(key, why);
    PublishedPacking packing = read_packing(fields);
    FamilyFields all(fields);
    family.fields(all, model.config);
    model.config.packing = std::move(packing);
    refuse_telling(fields, family.model_type, model.config.architecture);
    model.config.name = std::move(name);
    model.config.architecture.family = family.model_type;
    validate_layers(model.config);
    parameter_count(model.config);
    check_overrides(overrides, fields, family.model_type);
    model.notes.insert(model.notes.end(), fields.notes().begin(), fields.notes().end());
    note_unread(fields, model.notes);
  } catch (const Error& error) {
    // A file that is wrong is no wrong use of the program, as long as no option changed it.
    const bool is_of_file = overrides.empty() && error.kind() == ErrorKind::usage;
    throw_error(is_of_file ? ErrorKind::failure : error.kind(), "{}: {}", what, error.what());
  }
  return model;
}

ModelConfig read_model_config(const std::filesystem::path& path, const std::vector<ConfigOverride>& overrides) {
  const std::filesystem::path file = config_file_of(path);
  Json fields = read_json_object(file, kMaxConfigBytes);
  std::string name = repository_name(fields);
  if (name.empty()) name = folder_name(file);
  return parse_model_config(std::move(fields), std::move(name), overrides, fmt::format("'{}'", file.string()));
}

Json model_config_json(const TransformerConfig& config) {
  const Family& family = family_of(config);
  Json fields = {{"architectures", Json::array({family.class_name})}, {"model_type", family.model_type}};
  FamilyFields all(fields);
  TransformerConfig copy = config;
  family.fields(all, copy);
  fields["torch_dtype"] = "float32";
  return fields;
}

}  // namespace ridgepoint
