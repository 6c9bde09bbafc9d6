#include "study/manifest.h"

#include <fmt/format.h>

#include <set>

#include "core/files/file.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSchema = 1;
constexpr std::uint64_t kMostManifestBytes = std::uint64_t{1} << 30;

Json to_json(const StudyPartPlan& part) {
  Json commands = Json::array();
  for (const StudyCommand& command : part.commands) {
    commands.push_back(
        {{"arguments", command.arguments}, {"rows", command.rows}, {"predicted_seconds", command.seconds}});
  }
  return {{"part", name(part.part)}, {"title", part.title}, {"commands", std::move(commands)}};
}

StudyPartPlan part_from(const Json& json) {
  StudyPartPlan part;
  part.part = kStudyPartNames.parse(json.at("part").get<std::string>(), "unknown part '{}'");
  part.title = json.at("title").get<std::string>();
  for (const Json& command : json.at("commands")) {
    part.commands.push_back({command.at("arguments").get<std::vector<std::string>>(),
                             command.at("rows").get<std::int64_t>(), command.at("predicted_seconds").get<double>()});
  }
  return part;
}

// Whether the program writes files into the folder of this one: "tables/sizes.md", "report.html".
bool is_own_file(const fs::path& name) {
  const fs::path folder = name.parent_path();
  return folder.empty() || folder == "tables" || folder == "pictures";
}

}  // namespace

void StudyManifest::read(const std::function<void(Json&)>& take) const {
  const std::string text = read_file(path_, kMostManifestBytes);
  try {
    Json manifest = parse_json(text);
    if (manifest.at("schema") == kSchema && manifest.at("configuration").is_object()) return take(manifest);
  } catch (const Error&) {  // all of them are reported alike
  } catch (const Json::exception&) {
  }
  throw Error(
      fmt::format("'{}' is damaged, or of another version of the program; name another folder with --output, or "
                  "give --restart to measure everything again",
                  path_.string()));
}

Json StudyManifest::configuration() const {
  Json configuration;
  read([&](Json& manifest) { configuration = std::move(manifest["configuration"]); });
  return configuration;
}

std::optional<std::vector<StudyPartPlan>> StudyManifest::plan() const {
  std::vector<StudyPartPlan> parts;
  read([&](Json& manifest) {
    for (const Json& part : manifest.at("parts").get_ref<const Json::array_t&>()) parts.push_back(part_from(part));
  });
  return parts.empty() ? std::nullopt : std::optional(std::move(parts));
}

std::vector<std::string> StudyManifest::files() const {
  std::vector<std::string> names;
  try {
    read([&](Json& manifest) { names = manifest.value("files", names); });
  } catch (const Error&) {
    return {};
  }
  std::erase_if(names, [](const std::string& name) { return !is_own_file(name); });
  return names;
}

void StudyManifest::write(const Json& configuration, std::span<const StudyPartPlan> plan) const {
  Json manifest = {{"schema", kSchema}, {"configuration", configuration}, {"parts", Json::array()}};
  for (const StudyPartPlan& part : plan) manifest["parts"].push_back(to_json(part));
  write_file(path_, manifest.dump(1) + "\n");
}

void StudyManifest::note_files(const std::vector<std::string>& names) const {
  Json noted;
  read([&](Json& manifest) {
    std::set<std::string> files = manifest.value("files", std::set<std::string>());
    files.insert(names.begin(), names.end());
    manifest["files"] = files;
    noted = std::move(manifest);
  });
  write_file(path_, noted.dump(1) + "\n");
}

}  // namespace ridgepoint
