#include "interchange/huggingface/catalogue.h"

#include <algorithm>
#include <sstream>

namespace ridgepoint {
namespace {

std::vector<KnownModel> parse() {
  std::vector<KnownModel> models;
  for (const EmbeddedFile& file : catalogue_files()) {
    std::istringstream lines{std::string(file.text)};
    for (std::string line; std::getline(lines, line);) {
      const Json json = parse_json(line);
      models.push_back({json.at("name"), json.at("repository"), json.at("config")});
    }
  }
  return models;
}

}  // namespace

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models = parse();
  return models;
}

const KnownModel* find_known_model(std::string_view name) {
  const auto found = std::ranges::find_if(
      known_models(), [&](const KnownModel& model) { return model.name == name || model.repository == name; });
  return found == known_models().end() ? nullptr : &*found;
}

}  // namespace ridgepoint
