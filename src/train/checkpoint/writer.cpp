#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "core/build_info.h"
#include "core/files/file.h"
#include "core/files/system_call.h"
#include "core/text/throw_error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_files.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/state_copy.h"

namespace ridgepoint::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHidden = ".step-";
constexpr std::uint64_t kMostReportBytes = std::uint64_t{16} << 20;

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

// The hidden folder in which a checkpoint is written; `attempt` makes its name unique within one writer.
fs::path partial_folder(const fs::path& folder, std::int64_t step, int attempt) {
  return folder / fmt::format(".{}.{}.partial", step_folder(step), attempt);
}

// Gives a written checkpoint its name. Replaces a checkpoint of that name, damaged or not.
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

// Removes the checkpoints up to `step` that the rule does not keep. Damaged checkpoints do not count, and stay.
void remove_old(const fs::path& folder, std::int64_t step, const KeepRule& keep,
                const std::function<void(const std::string&)>& before_change) {
  std::int64_t newer = 0;
  for (const auto& [of, path] : checkpoints_in(folder)) {
    if (of > step || !has_files_of_their_sizes(path)) continue;
    const bool stays = newer++ < std::max<std::int64_t>(keep.last, 1) || (keep.every > 0 && of % keep.every == 0);
    if (stays) continue;
    before_change(fmt::format("remove {}", path.filename().string()));
    // Renamed to a hidden name first, so that nobody finds half a checkpoint.
    const fs::path hidden = folder / fmt::format(".{}.removed", path.filename().string());
    std::error_code ignored;
    fs::rename(path, hidden, ignored);
    fs::remove_all(hidden, ignored);
  }
}

// If there are fewer processors than threads, the program's threads have priority.
void lower_priority() {
#ifdef __linux__
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, 0, kNice);  // of this thread
#endif
}

std::string report_file(std::size_t rank) { return fmt::format("rank-{:05}.json", rank + 1); }

}  // namespace

// A folder of checkpoints that this run alone writes to.
class CheckpointFolder {
 public:
  // Makes the folder, and removes the remains of a killed run. Throws Error if another run writes to it.
  explicit CheckpointFolder(const std::filesystem::path& folder);

 private:
  Descriptor lock_;
};

CheckpointFolder::CheckpointFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) throw_system_error("make the folder", folder, error ? error.value() : ENOTDIR);
  lock_ = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_.is_open()) throw_system_error("open the folder", folder, errno);
  // A file system without locks is no error.
  if (::flock(lock_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw_error("another run writes checkpoints to '{}'; name another folder", folder.string());
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kHidden)) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove_all(path, error);
}

class CheckpointWriter::Implementation {
 public:
  Implementation(Program& program, CheckpointOptions options)
      : options_(std::move(options)),
        rank_(options_.group == nullptr ? 0 : static_cast<std::size_t>(options_.group->rank())),
        ranks_(options_.group == nullptr ? 1 : static_cast<std::size_t>(options_.group->ranks())),
        folder_(opened_folder()),
        state_(program, rank_, ranks_, options_.device_room_bytes),
        files_(program, state_, options_, rank_, ranks_, before_change_) {}
  ~Implementation() {
    // Without finish(), for example after an exception: other ranks may not come here.
    cancel("the training ended");
    if (thread_.joinable()) thread_.join();
  }

  void save(Manifest manifest) {
    finish();
    state_.take();
    manifest.revision = revision();
    manifest.ranks = static_cast<std::int64_t>(ranks_);
    partial_ = partial_folder(options_.folder, manifest.step, ++attempt_);
    {
      const std::lock_guard lock(mutex_);
      own_is_written_ = false;
      own_problem_.clear();
      cancelled_.clear();
    }
    thread_ = std::thread([this, manifest = std::move(manifest)] { write(manifest); });
  }

  void finish() {
    if (!thread_.joinable()) return;
    std::string mine;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return own_is_written_; });
      mine = own_problem_;
    }
    if (options_.group != nullptr) {
      const std::vector<std::string> all =
          options_.group->all_gather(mine, "what became of a checkpoint", ProcessGroup::TimeLimit::none);
      for (std::size_t rank = 1; rank < ranks_; ++rank) {
        if (!all[rank].empty()) cancel(fmt::format("rank {}: {}", rank, all[rank]));
      }
    }
    thread_.join();
    std::error_code ignored;
    if (rank_ == 0) fs::remove_all(partial_, ignored);
  }

  std::optional<std::string> take_problem() {
    const std::lock_guard lock(mutex_);
    return std::exchange(problem_, std::nullopt);
  }
  const StateCopy& state() const { return state_; }

 private:
  std::optional<CheckpointFolder> opened_folder() const {
    std::optional<CheckpointFolder> folder;
    std::string problem;
    if (rank_ == 0) {
      try {
        folder.emplace(options_.folder);
      } catch (const std::exception& error) {
        problem = error.what();
      }
    }
    problem = problem_of_ranks(options_.group, problem, "the folder of checkpoints");
    if (!problem.empty()) throw Error(problem);
    return folder;
  }

  void before(const std::string& change) const {
    if (options_.before_change) options_.before_change(change);
  }

  void cancel(const std::string& because) {
    const std::lock_guard lock(mutex_);
    if (cancelled_.empty()) cancelled_ = because;
    changed_.notify_all();
  }

  // The body of the thread.
  void write(const Manifest& manifest) {
    lower_priority();
    std::string problem;
    try {
      before("make the folder");
      fs::create_directories(partial_);
      state_.bring();
      std::vector<CheckpointFile> files = files_.write_own(partial_);
      if (rank_ == 0) {
        own_is_done("");
        take_reports(files);
        files_.write_parameters(partial_, options_.folder / step_folder(manifest.step), files);
        before(std::string(kManifestFile));
        write_file(partial_ / kManifestFile, manifest_text({manifest, std::move(files), files_.tensors()}));
        before("publish");
        publish(partial_, options_.folder / step_folder(manifest.step));
        remove_old(options_.folder, manifest.step, options_.keep, [&](const std::string& change) { before(change); });
      } else {
        report({{"files", files_json(files)}});
      }
    } catch (const std::exception& error) {
      problem = fmt::format("the checkpoint of step {} was not written: {}", manifest.step, error.what());
    }
    if (!problem.empty()) fail(problem);
    own_is_done(problem);
  }

  // The first rank reports the problems of all ranks.
  void fail(const std::string& problem) {
    std::error_code ignored;
    if (ranks_ == 1) fs::remove_all(partial_, ignored);  // which makes room at once
    if (rank_ == 0) {
      const std::lock_guard lock(mutex_);
      problem_ = problem;
      return;
    }
    try {
      report({{"problem", problem}});
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): finish() tells it, too
    }
  }

  void own_is_done(const std::string& problem) {
    const std::lock_guard lock(mutex_);
    if (own_is_written_) return;
    own_is_written_ = true;
    own_problem_ = problem;
    changed_.notify_all();
  }

  void report(const Json& json) const { write_file(partial_ / report_file(rank_), dump_json(json)); }

  // Adds the files that the other ranks have written.
  void take_reports(std::vector<CheckpointFile>& files) {
    constexpr auto kPause = std::chrono::milliseconds(20);
    for (std::size_t rank = 1; rank < ranks_; ++rank) {
      const fs::path path = partial_ / report_file(rank);
      std::error_code ignored;
      while (!fs::exists(path, ignored)) {
        std::unique_lock lock(mutex_);
        if (!cancelled_.empty()) throw Error(cancelled_);
        changed_.wait_for(lock, kPause);
      }
      const Json json = parse_json(read_file(path, kMostReportBytes));
      if (json.contains("problem")) throw_error("rank {}: {}", rank, json["problem"].get<std::string>());
      for (CheckpointFile& file : files_from_json(json["files"])) files.push_back(std::move(file));
      fs::remove(path);
    }
  }

  const CheckpointOptions options_;
  const std::function<void(const std::string&)> before_change_ = [this](const std::string& change) { before(change); };
  const std::size_t rank_, ranks_;
  std::optional<CheckpointFolder> folder_;  // of the first rank
  StateCopy state_;
  const CheckpointFiles files_;

  int attempt_ = 0;
  fs::path partial_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool own_is_written_ = false;         // this rank's files, or it has failed
  std::string own_problem_;             // of this rank
  std::string cancelled_;               // why the first rank need not wait for the others
  std::optional<std::string> problem_;  // for take_problem()
};

CheckpointWriter::CheckpointWriter(Program& program, CheckpointOptions options)
    : implementation_(std::make_unique<Implementation>(program, std::move(options))) {}
CheckpointWriter::~CheckpointWriter() = default;
void CheckpointWriter::save(Manifest manifest) { implementation_->save(std::move(manifest)); }
std::size_t CheckpointWriter::needed_device_bytes() const { return implementation_->state().needed_device_bytes(); }
std::size_t CheckpointWriter::device_bytes() const { return implementation_->state().device_bytes(); }
void CheckpointWriter::finish() { implementation_->finish(); }
std::optional<std::string> CheckpointWriter::take_problem() { return implementation_->take_problem(); }

}  // namespace ridgepoint::train
