// The config.json of a Hugging Face model, read into the configuration of a Transformer, and written from one. A file
// may be malicious: its size, depth and numbers are limited (config_fields.h).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/huggingface/config/config_overrides.h"
#include "models/transformer/transformer.h"

namespace ridgepoint {

struct ModelConfig {
  TransformerConfig config;        // its context is the default one, not the model's
  std::vector<std::string> notes;  // sentences for the user: fields that are ignored, dropout that is off
};

// The config.json that belongs to `path`: the file itself, or the one in the folder, or the one beside a safetensors
// file or its index. Throws Error if there is none.
std::filesystem::path config_file_of(const std::filesystem::path& path);

// Reads config_file_of(path). The model's name is that of the repository in the file, else that of the folder. Throws
// Error with the path: for a family that is not supported, with what it lacks or the nearest name; for fields of wrong
// types, sizes that contradict each other or overflow, and fields that change the computation and are not supported.
// Throws Error (usage) for an override of a field that the family does not read.
ModelConfig read_model_config(const std::filesystem::path& path, const std::vector<ConfigOverride>& overrides = {});

// The same of the fields themselves. `what` begins messages.
ModelConfig parse_model_config(Json fields, std::string name, const std::vector<ConfigOverride>& overrides,
                               std::string_view what);

// The fields of a config.json of the model's family, which parse_model_config() reads back. A model without a family,
// that of docs/model.md, is a Llama.
Json model_config_json(const TransformerConfig& config);

}  // namespace ridgepoint
