#include "study/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "core/text/text.h"
#include "ridgepoint/error.h"
#include "study/line_file.h"

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

// Of rows or command lines. Throws an exception for what is none.
std::int64_t count_at(const Json& line, const char* key) {
  constexpr Json::number_unsigned_t kMost = 1 << 30;  // sums of them fit
  const auto count = line.at(key).get_ref<const Json::number_unsigned_t&>();
  if (count > kMost) throw Error(fmt::format("'{}' is too large", key));
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

}  // namespace

fs::path StudyFolder::file(std::string_view name) const {
  fs::path path = path_;
  for (const fs::path& level : fs::path(name)) {
    path /= level;
    std::error_code ignored;  // what opens the file says why it cannot be opened
    const fs::file_status status = fs::symlink_status(path, ignored);
    if (fs::is_symlink(status)) {
      throw Error(
          fmt::format("'{}' is a symbolic link, and a study has none: it would read and write elsewhere; remove "
                      "the link, or put in its place what it leads to",
                      path.string()));
    }
    if (fs::is_other(status))
      throw Error(fmt::format("'{}' is a device or pipe, and a study has none; remove it", path.string()));
  }
  return path;
}

fs::path StudyFolder::records(StudyPart part) const { return file(fmt::format("records/{}.jsonl", name(part))); }

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
    const fs::path path = file(folder);
    fs::create_directories(path, error);
    if (error) throw Error(fmt::format("cannot make the folder '{}': {}", path.string(), error.message()));
  }
}

void StudyFolder::restart(const Json& configuration) const {
  make_folders();
  std::vector<std::string> names = {kLog};
  for (const StudyPart part : all_parts()) {
    names.push_back(fmt::format("records/{}.jsonl", name(part)));
    names.push_back(fmt::format("timelines/{}.csv", name(part)));
    names.push_back(fmt::format("pictures/{}.svg", name(part)));
  }
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

}  // namespace ridgepoint
