#include "measure/study/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "core/text/text.h"
#include "measure/study/line_file.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

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
    return name.starts_with(fmt::format(".{}.", StudyManifest::kName)) && name.ends_with(".tmp");
  });
}

}  // namespace

fs::path StudyFolder::records(StudyPart part) const { return path_ / "records" / fmt::format("{}.jsonl", name(part)); }

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
  manifest().write(configuration, {});
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
  for (std::string& name : manifest().files()) names.push_back(std::move(name));
  for (const std::string& name : names) fs::remove(file(name));
  manifest().write(configuration, {});
  make_folders();
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

void StudyFolder::keep_rows(StudyPart part, std::size_t count) const { keep_lines(records(part), count); }

}  // namespace ridgepoint
