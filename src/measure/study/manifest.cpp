#include "measure/study/manifest.h"

#include <fmt/format.h>

#include <algorithm>
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

bool stays_within_folder(const std::string& name) {
  const fs::path path(name);
  return path.is_relative() && std::ranges::find(path, fs::path("..")) == path.end();
}

}  // namespace

Json StudyManifest::configuration() const {
  Json manifest = Json::parse(read_file(path_, kMostManifestBytes), nullptr, false);
  if (!manifest.is_object() || !manifest.contains("configuration") ||
      manifest.value("schema", std::int64_t{0}) != kSchema) {
    throw Error(
        fmt::format("'{}' is damaged, or of another version of the program; name another folder with --output, or "
                    "give --restart to measure everything again",
                    path_.string()));
  }
  return manifest["configuration"];
}

std::optional<std::vector<StudyPartPlan>> StudyManifest::plan() const {
  const Json manifest = Json::parse(read_file(path_, kMostManifestBytes));
  if (manifest.at("parts").empty()) return std::nullopt;
  std::vector<StudyPartPlan> parts;
  for (const Json& part : manifest.at("parts")) parts.push_back(part_from(part));
  return parts;
}

std::vector<std::string> StudyManifest::files() const {
  std::vector<std::string> names;
  const Json manifest = Json::parse(read_file(path_, kMostManifestBytes), nullptr, false);
  if (!manifest.is_object()) return names;
  for (const Json& name : manifest.value("files", Json::array())) {
    if (name.is_string() && stays_within_folder(name.get<std::string>())) names.push_back(name.get<std::string>());
  }
  return names;
}

void StudyManifest::write(const Json& configuration, std::span<const StudyPartPlan> plan) const {
  Json manifest = {{"schema", kSchema}, {"configuration", configuration}, {"parts", Json::array()}};
  for (const StudyPartPlan& part : plan) manifest["parts"].push_back(to_json(part));
  write_file(path_, manifest.dump(1) + "\n");
}

void StudyManifest::note_files(const std::vector<std::string>& names) const {
  Json manifest = Json::parse(read_file(path_, kMostManifestBytes));
  std::set<std::string> files = manifest.value("files", std::set<std::string>());
  files.insert(names.begin(), names.end());
  manifest["files"] = files;
  write_file(path_, manifest.dump(1) + "\n");
}

}  // namespace ridgepoint
