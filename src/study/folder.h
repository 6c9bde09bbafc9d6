// The folder of a study: the plan (study.json), the command lines that have ended (log.jsonl), and the rows of each
// part (records/PART.jsonl). Rows and log are only appended to, a line at a time, so a study that is killed at any
// moment loses no finished row. study.json also names the other files that the study wrote. The folder is untrusted:
// anyone may have changed it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/system_call.h"
#include "core/text/json.h"
#include "study/plan/plan.h"
#include "study/study_rows.h"

namespace ridgepoint {

class StudyManifest {
 public:
  static constexpr const char* kName = "study.json";

  explicit StudyManifest(std::filesystem::path path) : path_(std::move(path)) {}

  bool exists() const { return std::filesystem::exists(path_); }

  // These throw Error for a file that is damaged or of another version.
  Json configuration() const;
  std::optional<std::vector<StudyPartPlan>> plan() const;  // empty before the devices are known
  // Those noted that the program may have written; none if the file is damaged.
  std::vector<std::string> files() const;

  // Writes the file anew, without noted files.
  void write(const Json& configuration, std::span<const StudyPartPlan> plan) const;
  // Notes files that are about to be written into the folder ("tables/sizes.md"), for StudyFolder::restart().
  void note_files(const std::vector<std::string>& names) const;

 private:
  void read(const std::function<void(Json&)>& take) const;

  std::filesystem::path path_;
};

// The end of a command line of a part.
struct StudyLogEntry {
  StudyPart part = StudyPart::devices;
  std::size_t command = 0;  // from 0
  std::int64_t rows = 0;    // that it printed
  int exit_code = 0;
  std::string problem;  // the last line of standard error, where it failed
  double seconds = 0;
};

class StudyFolder {
 public:
  explicit StudyFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  // The path of one of its files or folders: "records/sizes.jsonl". Every reader and writer takes the path from here,
  // because a symbolic link in an untrusted folder could lead out of it. Throws Error for a link, a pipe or a device on
  // the way.
  std::filesystem::path file(std::string_view name) const;
  bool has(std::string_view name) const { return std::filesystem::is_regular_file(file(name)); }

  // The plan and the machine of the study. Studies with different ones must not share a folder. A folder without this
  // file has no study.
  StudyManifest manifest() const { return StudyManifest(file(StudyManifest::kName)); }

  // Keeps other processes from this study while the descriptor is open. Throws Error if one has it.
  Descriptor lock() const;
  // Makes the folder for a new study. Throws Error for one that cannot be written, or that holds other files.
  void create(const Json& configuration) const;
  // Makes the folders of a study that are missing.
  void make_folders() const;
  // Removes only the files that this study wrote, and begins anew. The manifest is removed last, so that an interrupted
  // removal leaves a study.
  void restart(const Json& configuration) const;

  // Drops an incomplete last line of each file. Returns the names of the files that had one.
  std::vector<std::string> drop_incomplete_lines() const;
  // These throw Error for a line that is not JSON or no entry, with its file and number.
  std::vector<StudyLogEntry> log() const;
  void append(const StudyLogEntry& entry) const;
  std::vector<Json> rows(StudyPart part) const;
  StudyRows all_rows() const;
  void append_row(StudyPart part, std::string_view line) const;
  // Keeps the first `count` rows of a part.
  void keep_rows(StudyPart part, std::size_t count) const;

 private:
  std::filesystem::path records(StudyPart part) const;

  std::filesystem::path path_;
};

}  // namespace ridgepoint
