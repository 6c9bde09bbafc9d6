// What --model takes: a preset, a model of the catalogue, or a path.
#pragma once

#include <string_view>
#include <vector>

#include "interchange/huggingface/model_config.h"

namespace ridgepoint {

// The names of the presets, then those of the catalogue.
std::vector<std::string_view> model_names();

// A preset by its name; else a model of the catalogue by its name or repository; else the config.json at a path.
// Overrides change the fields of the latter two. Throws Error (usage) with the most similar name for a word that is
// neither a name nor the path of something that exists, and for overrides of a preset.
ModelConfig named_model(std::string_view name, const std::vector<ConfigOverride>& overrides = {});

}  // namespace ridgepoint
