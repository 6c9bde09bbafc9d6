#include "study/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <set>
#include <system_error>

#include "core/files/file.h"
#include "core/files/leftovers.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "record/usual_values.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

// The complete lines; none if the file does not exist.
std::vector<std::string> complete_lines(const fs::path& path) {
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

// Throws Error that says where the file is damaged and what to do: "line 3 is no row".
void throw_damaged(const fs::path& path, std::string_view problem) {
  throw_error("'{}' is damaged: {}; give --restart to measure everything again", path.string(), problem);
}

// The complete lines as objects. Throws Error, with the file and the line, for one that is none.
std::vector<Json> json_lines(const fs::path& path) {
  std::vector<Json> rows;
  for (const std::string& line : complete_lines(path)) {
    const std::string what = fmt::format("line {}", rows.size() + 1);
    try {
      rows.push_back(parse_json(line, what));
    } catch (const JsonError& error) {
      throw_damaged(path, error.what());
    }
    if (!rows.back().is_object()) throw_damaged(path, what + " is not a row");
    use_usual_values(rows.back());
  }
  return rows;
}

// Appends with one write, so that no reader and no crash sees another order of bytes.
void append_line(const fs::path& path, std::string_view line) {
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << (std::string(line) + "\n") << std::flush;
  if (!file) throw_error("cannot write to '{}'", path.string());
}

// Keeps the first `count` lines.
void keep_lines(const fs::path& path, std::size_t count) {
  std::string kept;
  std::size_t at = 0;
  for (const std::string& line : complete_lines(path)) {
    if (at++ == count) break;
    kept += line + "\n";
  }
  write_file(path, kept);
}

// Returns whether the file had an incomplete last line.
bool drop_incomplete_line(const fs::path& path) {
  if (!fs::exists(path)) return false;
  const std::string text = read_file(path, kMostBytes);
  const std::size_t end = text.rfind('\n') + 1;  // 0 without one
  if (end == text.size()) return false;
  fs::resize_file(path, end);
  return true;
}

namespace fs = std::filesystem;

constexpr const char* kLog = "log.jsonl";
constexpr std::array kOwnFolders = {"records", "tables", "pictures", "timelines"};

std::vector<StudyPart> all_parts() {
  std::vector<StudyPart> parts;
  for (int i = 0; i <= static_cast<int>(kLastStudyPart); ++i) parts.push_back(static_cast<StudyPart>(i));
  return parts;
}

// Nothing, or the rest of a process that was ended while it wrote the first manifest.
bool is_empty_but_for_leftovers(const fs::path& folder) {
  return std::ranges::all_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    return is_temporary_name(entry.path().filename().string(), StudyManifest::kName);
  });
}

// Of rows or command lines. Throws an exception for what is none.
std::int64_t count_at(const Json& line, const char* key) {
  constexpr Json::number_unsigned_t kMost = 1 << 30;  // sums of them fit
  const auto count = line.at(key).get_ref<const Json::number_unsigned_t&>();
  if (count > kMost) throw_error("'{}' is too large", key);
  return static_cast<std::int64_t>(count);
}

StudyLogEntry entry_from(const Json& line) {
  return {kStudyPartNames.parse(line.at("part").get<std::string>(), "unknown part '{}'"),
          static_cast<std::size_t>(count_at(line, "command")),
          count_at(line, "rows"),
          line.at("exit_code").get<int>(),
          line.value("problem", ""),
          line.at("seconds").get<double>()};
}

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
  return folder.empty() || folder == "tables" || folder == "pictures" || folder == "timelines";
}

}  // namespace

fs::path StudyFolder::file(std::string_view name) const {
  fs::path path = path_;
  for (const fs::path& level : fs::path(name)) {
    path /= level;
    std::error_code ignored;  // what opens the file says why it cannot be opened
    const fs::file_status status = fs::symlink_status(path, ignored);
    if (fs::is_symlink(status))
      throw_error(
          "'{}' is a symbolic link, and a study has none: it would read and write elsewhere; remove "
          "the link, or put in its place what it leads to",
          path.string());
    if (fs::is_other(status)) throw_error("'{}' is a device or pipe, and a study has none; remove it", path.string());
  }
  return path;
}

fs::path StudyFolder::records(StudyPart part) const { return file(fmt::format("records/{}.jsonl", name(part))); }

Descriptor StudyFolder::lock() const {
  Descriptor folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) throw_system_error("open", path_.string(), errno);
  // A file system without locks has none to ask.
  if (::flock(folder.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw_error("another process measures the study in '{}'; wait for its end", path_.string());
  return folder;
}

void StudyFolder::create(const Json& configuration) const {
  if (fs::exists(path_) && !fs::is_directory(path_))
    throw_error("'{}' is a file; name another folder with --output", path_.string());
  if (fs::exists(path_) && !is_empty_but_for_leftovers(path_))
    throw_error("'{}' has files that are not a study's; name another folder with --output", path_.string());
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw_error("cannot make the folder '{}': {}", path_.string(), error.message());
  manifest().write(configuration, {});
  make_folders();
}

void StudyFolder::make_folders() const {
  for (const char* folder : kOwnFolders) {
    std::error_code error;
    const fs::path path = file(folder);
    fs::create_directories(path, error);
    if (error) throw_error("cannot make the folder '{}': {}", path.string(), error.message());
  }
}

void StudyFolder::restart(const Json& configuration) const {
  make_folders();
  std::vector<std::string> names = {kLog};
  for (const StudyPart part : all_parts()) names.push_back(fmt::format("records/{}.jsonl", name(part)));
  for (std::string& name : manifest().files()) names.push_back(std::move(name));
  std::vector<fs::path> paths;  // all of them before the first is removed, because one may be refused
  for (const std::string& name : names) {
    if (has(name)) paths.push_back(file(name));
  }
  for (const fs::path& path : paths) fs::remove(path);
  manifest().write(configuration, {});
}

std::vector<std::string> StudyFolder::drop_incomplete_lines() const {
  std::vector<fs::path> paths = {file(kLog)};
  for (const StudyPart part : all_parts()) paths.push_back(records(part));
  std::vector<std::string> dropped;
  for (const fs::path& path : paths) {
    if (drop_incomplete_line(path)) dropped.push_back(path.filename().string());
  }
  return dropped;
}

std::vector<StudyLogEntry> StudyFolder::log() const {
  std::vector<StudyLogEntry> entries;
  const fs::path path = file(kLog);
  for (const Json& line : json_lines(path)) {
    try {
      entries.push_back(entry_from(line));
    } catch (const std::exception&) {
      throw_damaged(path, fmt::format("line {} is no entry of a log", entries.size() + 1));
    }
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

void StudyFolder::keep_rows(StudyPart part, std::size_t count) const { keep_lines(records(part), count); }

void StudyManifest::read(const std::function<void(Json&)>& take) const {
  const std::string text = read_file(path_, kMostManifestBytes);
  try {
    Json manifest = parse_json(text);
    if (manifest.at("schema") == kSchema && manifest.at("configuration").is_object()) return take(manifest);
  } catch (const Error&) {  // all of them are reported alike
  } catch (const Json::exception&) {
  }
  throw_error(
      "'{}' is damaged, or of another version of the program; name another folder with --output, or "
      "give --restart to measure everything again",
      path_.string());
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
