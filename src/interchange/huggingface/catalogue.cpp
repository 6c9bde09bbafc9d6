#include "interchange/huggingface/catalogue.h"

#include <algorithm>

#include "core/text/lower.h"

namespace ridgepoint {
namespace {

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
