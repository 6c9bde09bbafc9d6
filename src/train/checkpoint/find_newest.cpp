#include <fmt/format.h>

#include "core/build_info.h"
#include "ridgepoint/core/error.h"
#include "train/checkpoint/manifest.h"

namespace ridgepoint::train {
namespace {

namespace fs = std::filesystem;

// What the first rank has found.
struct Found {
  std::string folder;  // empty: none
  std::vector<std::string> passed_over;
  std::string error;
};

// Empty if the checkpoint is whole.
std::string problem_of(const fs::path& checkpoint) {
  try {
    const std::vector<CheckpointFile> files = read_manifest(checkpoint).files;
    const std::string problem = problem_of_files(checkpoint, files, false);
    return problem.empty() ? problem_of_files(checkpoint, files, true) : problem;
  } catch (const Error& error) {
    return error.what();
  }
}

Found look(const fs::path& folder) {
  std::error_code ignored;
  const bool is_one = fs::exists(folder / kManifestFile, ignored) ||
                      step_of_folder(fs::absolute(folder, ignored).lexically_normal().filename().string()) >= 0;
  if (is_one && fs::exists(folder, ignored)) return {folder.string(), {}, problem_of(folder)};
  Found found;
  for (const auto& [step, path] : checkpoints_in(folder)) {
    std::string problem = problem_of(path);
    if (problem.empty()) {
      found.folder = path.string();
      return found;
    }
    found.passed_over.push_back(fmt::format("the checkpoint of step {} is passed over: {}", step, problem));
  }
  if (!found.passed_over.empty())
    found.error = fmt::format("no checkpoint in '{}' is whole; the newest: {}", folder.string(), found.passed_over[0]);
  return found;
}

Found look_together(const fs::path& folder, ProcessGroup* group) {
  if (group == nullptr) return look(folder);
  std::string mine;
  if (group->rank() == 0) {
    const Found found = look(folder);
    mine = dump_json({{"folder", found.folder}, {"passed_over", found.passed_over}, {"error", found.error}});
  }
  const Json json = parse_json(group->all_gather(mine, "the newest checkpoint", ProcessGroup::TimeLimit::none)[0]);
  return {json["folder"].get<std::string>(), json["passed_over"].get<std::vector<std::string>>(),
          json["error"].get<std::string>()};
}

}  // namespace

std::optional<FoundCheckpoint> find_newest(const fs::path& folder, ProcessGroup* group) {
  Found found = look_together(folder, group);
  if (!found.error.empty()) throw Error(found.error);
  if (found.folder.empty()) return std::nullopt;
  FoundCheckpoint checkpoint{found.folder, read_manifest(found.folder).manifest, std::move(found.passed_over), {}};
  const std::string& wrote = checkpoint.manifest.revision;
  if (wrote != revision()) {
    checkpoint.notes.push_back(
        fmt::format("'{}' was written by revision {} of this program, which is revision {}: later steps may round "
                    "differently",
                    found.folder, wrote, revision()));
  }
  return checkpoint;
}

}  // namespace ridgepoint::train
