// study.json of a study's folder: what the study measures and on what, its parts with their command lines, and the
// files that it wrote besides rows and log. Anyone may have changed it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "study/plan/plan.h"

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

}  // namespace ridgepoint
