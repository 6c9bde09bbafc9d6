// Models that people know, with their dimensions: data/models/catalogue.jsonl, which cmake/embed.cmake embeds.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/embedded_file.h"
#include "core/text/json.h"

namespace ridgepoint {

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

}  // namespace ridgepoint
