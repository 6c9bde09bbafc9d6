#include "interchange/huggingface/named_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/text/nearest.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"

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
  throw_error(ErrorKind::usage, "--model: {} is unknown{}", quote_name(name),
              near.empty() ? fmt::format("; it is no preset ({}), no model that 'ridgepoint models' lists "
                                         "and no path of a config.json or its folder",
                                         presets)
                           : fmt::format("; did you mean '{}'?", near));
}

// The names of each line; of its config.json, which is most of the line, only the text.
std::vector<KnownModel> parse() {
  constexpr std::string_view kBeforeConfig = ", \"config\": ";
  std::vector<KnownModel> models;
  for (const EmbeddedFile& file : catalogue_files()) {
    for (std::string_view rest = file.text; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1)) {
      std::string_view line = rest.substr(0, rest.find('\n'));
      const std::size_t names_end = line.find(kBeforeConfig);
      const Json names = parse_json(std::string(line.substr(0, names_end)) + "}");
      line.remove_prefix(names_end + kBeforeConfig.size());
      models.push_back({names.at("name"), names.at("repository"), line.substr(0, line.rfind('}'))});
    }
  }
  return models;
}

// In lower case, without the owner of a repository and the endings of models that were trained on after the base.
std::string plain_name(std::string_view name) {
  std::string plain = lower(name.substr(name.rfind('/') + 1));
  for (bool is_shorter = true; is_shorter;) {
    is_shorter = false;
    for (const std::string_view end : {"-hf", "-instruct", "-it", "-base", "-chat", "-pt", "-thinking"}) {
      if (!plain.ends_with(end)) continue;
      plain.erase(plain.size() - end.size());
      is_shorter = true;
    }
  }
  return plain;
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
      throw_error(ErrorKind::usage,
                  "--config-override changes a config.json, and '{}' is a preset, which has none; "
                  "--layers and its like change its sizes",
                  name);
    return {*preset, {}};
  }
  if (const KnownModel* model = find_known_model(name))
    return parse_model_config(parse_json(model->config), model->name, overrides, model->name);
  if (is_path(name)) return read_model_config(name, overrides);
  refuse_model(name);
}

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models = parse();
  return models;
}

const KnownModel* find_known_model(std::string_view name) {
  const auto find = [](const auto& is_it) -> const KnownModel* {
    const auto found = std::ranges::find_if(known_models(), is_it);
    return found == known_models().end() ? nullptr : &*found;
  };
  if (const KnownModel* exact =
          find([&](const KnownModel& model) { return model.name == name || model.repository == name; }))
    return exact;
  if (std::ranges::count(name, '/') > 1 || name.starts_with('.') || name.starts_with('/')) return nullptr;  // a path
  const std::string owner = lower(name.substr(0, name.find('/') == std::string_view::npos ? 0 : name.find('/') + 1));
  const std::string plain = plain_name(name);
  return find([&](const KnownModel& model) {
    const bool is_same = plain_name(model.name) == plain || plain_name(model.repository) == plain;
    return is_same && lower(model.repository).starts_with(owner);
  });
}

}  // namespace ridgepoint
