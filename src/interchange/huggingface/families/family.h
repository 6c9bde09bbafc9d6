// A family of models: how its config.json is read and written. One file a family; families.cpp lists them. Defaults of
// absent fields are those of transformers 4.57; fields that 5.x renamed are read under both names.
#pragma once

#include <span>
#include <string_view>

#include "core/text/json.h"
#include "interchange/huggingface/config/config_fields.h"
#include "models/transformer.h"

namespace ridgepoint {

struct Family {
  std::string_view model_type;
  std::string_view class_name;  // in transformers
  TransformerConfig (*read)(ConfigFields& fields);
  // Adds the fields of a configuration that read() would return; `fields` has model_type and architectures.
  void (*write)(const TransformerConfig& config, Json& fields);
};

std::span<const Family> families();
// Null for a family that is not supported.
const Family* find_family(std::string_view model_type);
// What the program lacks for a family that it knows of and does not support; empty for others.
std::string_view lacking_for(std::string_view model_type);

TransformerConfig read_gpt2(ConfigFields& fields);
void write_gpt2(const TransformerConfig& config, Json& fields);
TransformerConfig read_llama(ConfigFields& fields);
void write_llama(const TransformerConfig& config, Json& fields);
TransformerConfig read_mistral(ConfigFields& fields);
void write_mistral(const TransformerConfig& config, Json& fields);
TransformerConfig read_mixtral(ConfigFields& fields);
void write_mixtral(const TransformerConfig& config, Json& fields);
TransformerConfig read_qwen2(ConfigFields& fields);
void write_qwen2(const TransformerConfig& config, Json& fields);
TransformerConfig read_qwen3(ConfigFields& fields);
void write_qwen3(const TransformerConfig& config, Json& fields);
TransformerConfig read_qwen2_moe(ConfigFields& fields);
void write_qwen2_moe(const TransformerConfig& config, Json& fields);
TransformerConfig read_qwen3_moe(ConfigFields& fields);
void write_qwen3_moe(const TransformerConfig& config, Json& fields);
TransformerConfig read_gemma2(ConfigFields& fields);
void write_gemma2(const TransformerConfig& config, Json& fields);
TransformerConfig read_gemma3(ConfigFields& fields);
void write_gemma3(const TransformerConfig& config, Json& fields);
TransformerConfig read_phi3(ConfigFields& fields);
void write_phi3(const TransformerConfig& config, Json& fields);
TransformerConfig read_olmo2(ConfigFields& fields);
void write_olmo2(const TransformerConfig& config, Json& fields);

}  // namespace ridgepoint
