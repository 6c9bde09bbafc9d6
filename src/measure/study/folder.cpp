#include "measure/study/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <set>
#include <system_error>

#include "core/files/file.h"
#include "core/text/text.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSchema = 1;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
constexpr const char* kManifest = "study.json";
constexpr const char* kLog = "log.jsonl";
constexpr std::array kOwnFolders = {"records", "tables", "pictures", "timelines"};

std::vector<StudyPart> all_parts() {
  std::vector<StudyPart> parts;
  for (int i = 0; i <= static_cast<int>(kLastStudyPart); ++i) parts.push_back(static_cast<StudyPart>(i));
  return parts;
}

// Nothing, or what a process leaves that was ended while it wrote the first manifest.
bool is_empty_but_for_leftovers(const fs::path& folder) {
  return std::ranges::all_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return name.starts_with(fmt::format(".{}.", kManifest)) && name.ends_with(".tmp");
  });
}

// Whether a name of a manifest, which anyone may have written, stays within the folder.
bool is_own_name(const std::string& name) {
  const fs::path path(name);
  return path.is_relative() && std::ranges::find(path, fs::path("..")) == path.end();
}

// The complete lines of a text file; none if it does not exist.
std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  if (!fs::exists(path)) return lines;
  const std::string text = read_file(path, kMostBytes);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::vector<Json> json_lines(const fs::path& path) {
  std::vector<Json> rows;
  std::size_t number = 0;
  for (const std::string& line : lines_of(path)) {
    ++number;
    Json row = Json::parse(line, nullptr, false);
    if (row.is_discarded() || !row.is_object()) {
      throw Error(fmt::format("'{}' is damaged: line {} is not a row; give --restart to measure everything again",
                              path.string(), number));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Appends a line with one write, so that no reader and no crash sees another order of bytes.
void append_line(const fs::path& path, std::string_view line) {
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << (std::string(line) + "\n") << std::flush;
  if (!file) throw Error(fmt::format("cannot write to '{}'", path.string()));
}

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

}  // namespace

fs::path StudyFolder::records(StudyPart part) const { return path_ / "records" / fmt::format("{}.jsonl", name(part)); }

bool StudyFolder::has_study() const { return fs::exists(file(kManifest)); }

Descriptor StudyFolder::lock() const {
  Descriptor folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) throw_system_error("open", path_.string(), errno);
  // A file system without locks has none to ask.
  if (::flock(folder.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(fmt::format("another process measures the study in '{}'; wait for its end", path_.string()));
  return folder;
}

void StudyFolder::create(const Json& configuration) const {
  if (fs::exists(path_) && !fs::is_directory(path_))
    throw Error(fmt::format("'{}' is a file; name another folder with --output", path_.string()));
  if (fs::exists(path_) && !is_empty_but_for_leftovers(path_)) {
    throw Error(
        fmt::format("'{}' has files that are not a study's; name another folder with --output", path_.string()));
  }
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw Error(fmt::format("cannot make the folder '{}': {}", path_.string(), error.message()));
  write_plan(configuration, {});
  make_folders();
}

void StudyFolder::make_folders() const {
  for (const char* folder : kOwnFolders) {
    std::error_code error;
    fs::create_directories(path_ / folder, error);
    if (error) throw Error(fmt::format("cannot make the folder '{}': {}", file(folder).string(), error.message()));
  }
}

void StudyFolder::restart(const Json& configuration) const {
  std::vector<std::string> names = {kLog};
  for (const StudyPart part : all_parts()) {
    names.push_back(fmt::format("records/{}.jsonl", name(part)));
    names.push_back(fmt::format("timelines/{}.csv", name(part)));
    names.push_back(fmt::format("pictures/{}.svg", name(part)));
  }
  const Json manifest = Json::parse(read_file(file(kManifest), kMostBytes), nullptr, false);
  if (manifest.is_object()) {
    for (const Json& name : manifest.value("files", Json::array())) {
      if (name.is_string() && is_own_name(name.get<std::string>())) names.push_back(name.get<std::string>());
    }
  }
  for (const std::string& name : names) fs::remove(file(name));
  write_plan(configuration, {});
  make_folders();
}

Json StudyFolder::configuration() const {
  Json manifest = Json::parse(read_file(file(kManifest), kMostBytes), nullptr, false);
  if (!manifest.is_object() || !manifest.contains("configuration") ||
      manifest.value("schema", std::int64_t{0}) != kSchema) {
    throw Error(
        fmt::format("'{}' is damaged, or of another version of the program; name another folder with --output, or "
                    "give --restart to measure everything again",
                    file(kManifest).string()));
  }
  return manifest["configuration"];
}

std::optional<std::vector<StudyPartPlan>> StudyFolder::plan() const {
  const Json manifest = Json::parse(read_file(file(kManifest), kMostBytes));
  if (manifest.at("parts").empty()) return std::nullopt;
  std::vector<StudyPartPlan> parts;
  for (const Json& part : manifest.at("parts")) parts.push_back(part_from(part));
  return parts;
}

void StudyFolder::write_plan(const Json& configuration, std::span<const StudyPartPlan> plan) const {
  Json manifest = {{"schema", kSchema}, {"configuration", configuration}, {"parts", Json::array()}};
  for (const StudyPartPlan& part : plan) manifest["parts"].push_back(to_json(part));
  write_file(file(kManifest), manifest.dump(1) + "\n");
}

void StudyFolder::note_files(const std::vector<std::string>& names) const {
  Json manifest = Json::parse(read_file(file(kManifest), kMostBytes));
  std::set<std::string> files = manifest.value("files", std::set<std::string>());
  files.insert(names.begin(), names.end());
  manifest["files"] = files;
  write_file(file(kManifest), manifest.dump(1) + "\n");
}

std::vector<std::string> StudyFolder::drop_incomplete_lines() const {
  std::vector<fs::path> paths = {file(kLog)};
  for (const StudyPart part : all_parts()) paths.push_back(records(part));
  std::vector<std::string> dropped;
  for (const fs::path& path : paths) {
    if (!fs::exists(path)) continue;
    const std::string text = read_file(path, kMostBytes);
    const std::size_t end = text.rfind('\n') + 1;  // 0 without one
    if (end == text.size()) continue;
    fs::resize_file(path, end);
    dropped.push_back(path.filename().string());
  }
  return dropped;
}

std::vector<StudyLogEntry> StudyFolder::log() const {
  std::vector<StudyLogEntry> entries;
  for (const Json& line : json_lines(file(kLog))) {
    entries.push_back({kStudyPartNames.parse(line.at("part").get<std::string>(), "unknown part '{}'"),
                       line.at("command").get<std::size_t>(), line.at("rows").get<std::int64_t>(),
                       line.at("exit_code").get<int>(), line.value("problem", ""), line.at("seconds").get<double>()});
  }
  return entries;
}

void StudyFolder::append(const StudyLogEntry& entry) const {
  Json line = {{"part", name(entry.part)},
               {"command", entry.command},
               {"rows", entry.rows},
               {"exit_code", entry.exit_code},
               {"seconds", entry.seconds}};
  if (!entry.problem.empty()) line["problem"] = valid_utf8(entry.problem);
  append_line(file(kLog), dump_json(line));
}

std::vector<Json> StudyFolder::rows(StudyPart part) const { return json_lines(records(part)); }

StudyRows StudyFolder::all_rows() const {
  StudyRows all;
  for (const StudyPart part : all_parts()) {
    std::vector<Json> found = rows(part);
    if (!found.empty()) all[part] = std::move(found);
  }
  return all;
}

void StudyFolder::append_row(StudyPart part, std::string_view line) const { append_line(records(part), line); }

void StudyFolder::keep_rows(StudyPart part, std::size_t count) const {
  std::string kept;
  std::size_t at = 0;
  for (const std::string& line : lines_of(records(part))) {
    if (at++ == count) break;
    kept += line + "\n";
  }
  write_file(records(part), kept);
}

}  // namespace ridgepoint
