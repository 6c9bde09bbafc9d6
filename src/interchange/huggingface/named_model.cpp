#include "interchange/huggingface/named_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/text/nearest.h"
#include "interchange/huggingface/catalogue.h"
#include "interchange/safetensors_names.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

bool is_path(std::string_view name) {
  std::error_code ignored;
  return name.find('/') != std::string_view::npos || name.ends_with(".json") || name.ends_with(".safetensors") ||
         std::filesystem::exists(name, ignored);
}

[[noreturn]] void refuse_model(std::string_view name) {
  std::string presets;
  for (const TransformerConfig& preset : transformer_presets())
    presets += fmt::format("{}{}", presets.empty() ? "" : ", ", preset.name);
  const std::string near = nearest(name, model_names());
  throw Error(fmt::format("--model: {} is unknown{}", quote_name(name),
                          near.empty() ? fmt::format("; it is no preset ({}), no model that 'ridgepoint models' lists "
                                                     "and no path of a config.json or its folder",
                                                     presets)
                                       : fmt::format("; did you mean '{}'?", near)),
              ErrorKind::usage);
}

}  // namespace

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names;
  for (const TransformerConfig& preset : transformer_presets()) names.push_back(preset.name);
  for (const KnownModel& model : known_models()) names.push_back(model.name);
  return names;
}

ModelConfig named_model(std::string_view name, const std::vector<ConfigOverride>& overrides) {
  const auto preset = std::ranges::find(transformer_presets(), name, &TransformerConfig::name);
  if (preset != transformer_presets().end()) {
    if (!overrides.empty())
      throw Error(fmt::format("--config-override changes a config.json, and '{}' is a preset, which has none; "
                              "--layers and its like change its sizes",
                              name),
                  ErrorKind::usage);
    return {*preset, {}};
  }
  if (const KnownModel* model = find_known_model(name))
    return parse_model_config(parse_json(model->config), model->name, overrides, model->name);
  if (is_path(name)) return read_model_config(name, overrides);
  refuse_model(name);
}

}  // namespace ridgepoint
