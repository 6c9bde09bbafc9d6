#include "train/checkpoint/disk_steps.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/file.h>

#include <algorithm>

#include "ridgepoint/core/error.h"
#include "train/checkpoint/manifest.h"

namespace ridgepoint::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHidden = ".step-";

// Some file systems cannot sync folders.
void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.is_open()) ::fsync(descriptor.number());
}

void rename_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_system_error("make the checkpoint", to, errno);
}

bool has_files_of_their_sizes(const fs::path& checkpoint) {
  try {
    return problem_of_files(checkpoint, read_manifest(checkpoint).files, false).empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

CheckpointFolder::CheckpointFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) throw_system_error("make the folder", folder, error ? error.value() : ENOTDIR);
  lock_ = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_.is_open()) throw_system_error("open the folder", folder, errno);
  // A file system without locks is no error.
  if (::flock(lock_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(fmt::format("another run writes checkpoints to '{}'; name another folder", folder.string()));
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kHidden)) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove_all(path, error);
}

fs::path partial_folder(const fs::path& folder, std::int64_t step, int attempt) {
  return folder / fmt::format(".{}.{}.partial", step_folder(step), attempt);
}

void publish(const fs::path& partial, const fs::path& final_path) {
  sync_folder(partial);
  std::error_code ignored;
  if (!fs::exists(final_path, ignored)) {
    rename_folder(partial, final_path);
  } else if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system that cannot exchange.
    const fs::path old = partial.string() + ".old";
    rename_folder(final_path, old);
    rename_folder(partial, final_path);
    fs::remove_all(old, ignored);
  }
  sync_folder(final_path.parent_path());
  fs::remove_all(partial, ignored);  // what was exchanged
}

void remove_old(const fs::path& folder, std::int64_t step, const KeepRule& keep,
                const std::function<void(const std::string&)>& before_change) {
  std::int64_t newer = 0;
  for (const auto& [of, path] : checkpoints_in(folder)) {
    if (of > step || !has_files_of_their_sizes(path)) continue;
    const bool stays = newer++ < std::max<std::int64_t>(keep.last, 1) || (keep.every > 0 && of % keep.every == 0);
    if (stays) continue;
    before_change(fmt::format("remove {}", path.filename().string()));
    // Hidden first: nobody finds half of it.
    const fs::path hidden = folder / fmt::format(".{}.removed", path.filename().string());
    std::error_code ignored;
    fs::rename(path, hidden, ignored);
    fs::remove_all(hidden, ignored);
  }
}

}  // namespace ridgepoint::train
