// What --model takes: a preset, a model of the catalogue, or a path.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/embedded_file.h"
#include "core/text/json.h"
#include "interchange/huggingface/model_config.h"

namespace ridgepoint {

// A model that people know: data/models/catalogue.jsonl, which cmake/embed.cmake embeds.
struct KnownModel {
  std::string name;         // in this program: llama-3.2-1b
  std::string repository;   // meta-llama/Llama-3.2-1B
  std::string_view config;  // config.json
};

// The file as it is.
std::span<const EmbeddedFile> catalogue_files();
// In the order of the file, which has a line for each model and is read at the first call.
const std::vector<KnownModel>& known_models();
// By its name or its repository, in letters of either case, also with the ending of a model that was trained on from
// it: "Qwen/Qwen3-8B-Base", "gemma-2-9b-it". Null for others.
const KnownModel* find_known_model(std::string_view name);

// The names of the presets, then those of the catalogue.
std::vector<std::string_view> model_names();

// A preset by its name; else a model of the catalogue by its name or repository; else the config.json at a path.
// Overrides change the fields of the latter two. Throws Error (usage) with the most similar name for a word that is
// neither a name nor the path of something that exists, and for overrides of a preset.
ModelConfig named_model(std::string_view name, const std::vector<ConfigOverride>& overrides = {});

}  // namespace ridgepoint
