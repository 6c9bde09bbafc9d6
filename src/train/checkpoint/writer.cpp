#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "core/build_info.h"
#include "core/files/checksum.h"
#include "core/files/file.h"
#include "core/threads/parallel.h"
#include "interchange/huggingface/model_config.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "interchange/safetensors.h"
#include "ridgepoint/error.h"
#include "runtime/device/device.h"
#include "train/checkpoint/disk_steps.h"
#include "train/checkpoint/manifest.h"

namespace ridgepoint::train {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostReportBytes = std::uint64_t{16} << 20;

// The program's threads go first where there are fewer processors than threads.
void lower_priority() {
#ifdef __linux__
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, 0, kNice);  // of this thread
#endif
}

std::string report_file(std::size_t rank) { return fmt::format("rank-{:05}.json", rank + 1); }
std::string parameters_file(std::size_t rank) { return fmt::format("parameters-{:05}.safetensors", rank + 1); }
std::string optimizer_file(std::size_t rank, std::size_t ranks) {
  return ranks == 1 ? fmt::format("{}.safetensors", kOptimizerStem)
                    : fmt::format("{}-{:05}-of-{:05}.safetensors", kOptimizerStem, rank + 1, ranks);
}

bool is_whole(const StatePart& part) { return part.end - part.begin == part.type.elements(); }

}  // namespace

class CheckpointWriter::Implementation {
 public:
  Implementation(Program& program, CheckpointOptions options)
      : program_(program),
        options_(std::move(options)),
        rank_(options_.group == nullptr ? 0 : static_cast<std::size_t>(options_.group->rank())),
        ranks_(options_.group == nullptr ? 1 : static_cast<std::size_t>(options_.group->ranks())),
        parts_(program.state_parts()) {
    open_folder();
    choose_copies();
    make_memory();
    read_constants();
  }
  ~Implementation() {
    // Without finish(), as in an exception: other ranks may not come here.
    cancel("the training ended");
    if (thread_.joinable()) thread_.join();
  }

  void save(Manifest manifest) {
    finish();
    program_.synchronize();
    for (const Copy& copy : copies_) program_.read_part(parts_[copy.part], bytes_of(copy));
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

 private:
  // What this rank copies: a part of parts_.
  struct Copy {
    std::size_t part = 0, offset = 0, bytes = 0;
  };

  void open_folder() {
    std::string problem;
    if (rank_ == 0) {
      try {
        folder_.emplace(options_.folder);
      } catch (const std::exception& error) {
        problem = error.what();
      }
    }
    problem = problem_of_ranks(options_.group, problem, "the folder of checkpoints");
    if (!problem.empty()) throw Error(problem);
  }

  // Parts of divided tensors are copied where they are. Of the others, the first rank copies the parameters, and the
  // rank with the least so far a state: all ranks come to the same result.
  void choose_copies() {
    std::vector<std::uint64_t> loads(ranks_);
    const auto bytes_of_part = [](const StatePart& part) {
      return static_cast<std::size_t>(part.end - part.begin) * size_bytes(part.stored);
    };
    for (const StatePart& part : parts_) {
      if (part.is_parameter && !part.is_divided) loads[0] += bytes_of_part(part);
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const StatePart& part = parts_[i];
      std::size_t by = rank_;
      if (!part.is_divided) {
        by = part.is_parameter ? 0 : static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin());
        if (!part.is_parameter) loads[by] += bytes_of_part(part);
      }
      if (by != rank_ || part.begin == part.end) continue;
      copy_of_[part.name] = copies_.size();
      copies_.push_back({i, memory_bytes_, bytes_of_part(part)});
      memory_bytes_ += (bytes_of_part(part) + kAlignment - 1) / kAlignment * kAlignment;
    }
  }

  // Its pages exist before the first save(), which would wait for them.
  void make_memory() {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(memory_bytes_);
    parallel_for(static_cast<std::int64_t>(memory_bytes_), std::int64_t{1} << 24,
                 [&](std::int64_t begin, std::int64_t end) {
                   std::memset(memory_.get() + begin, 0, static_cast<std::size_t>(end - begin));
                 });
    locked_ = program_.device().lock_pages({memory_.get(), memory_bytes_});
  }

  // They never change.
  void read_constants() {
    if (options_.model == nullptr || rank_ != 0) return;
    for (const ParameterDeclaration& one : parameters_of(stored_weights(*options_.model), true)) {
      if (program_.graph().find_input(one.name))
        constants_.emplace(one.name, convert(program_.read_input(one.name), DType::fp32));
    }
  }

  std::span<std::byte> bytes_of(const Copy& copy) const { return {memory_.get() + copy.offset, copy.bytes}; }

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
      std::vector<CheckpointFile> files = write_own();
      if (rank_ == 0) {
        own_is_done("");
        take_reports(files);
        write_model_files(files);
        before(std::string(kManifestFile));
        write_file(partial_ / kManifestFile, manifest_text({manifest, std::move(files), tensors()}));
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

  // The first rank says the problems of all.
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
      if (json.contains("problem")) throw Error(fmt::format("rank {}: {}", rank, json["problem"].get<std::string>()));
      for (CheckpointFile& file : files_from_json(json["files"])) files.push_back(std::move(file));
      fs::remove(path);
    }
  }

  // Writes the states that this rank copied; and for the first rank, which makes whole ones of them, its parts of
  // parameters.
  std::vector<CheckpointFile> write_own() {
    std::vector<CheckpointFile> files;
    write_copies(optimizer_file(rank_, ranks_), false, files);
    std::vector<CheckpointFile> passed_on;
    if (rank_ != 0) write_copies(parameters_file(rank_), true, passed_on);
    return files;
  }

  void write_copies(const std::string& file, bool parameters, std::vector<CheckpointFile>& files) {
    std::vector<TensorDeclaration> declarations;
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const StatePart& part = parts_[copies_[i].part];
      if (part.is_parameter != parameters) continue;
      chosen.push_back(i);
      declarations.push_back(
          {part.name, {part.stored, is_whole(part) ? part.type.shape : Shape{part.end - part.begin}}});
    }
    if (chosen.empty()) return;
    write_tensors(file, declarations, files, [&](std::size_t i) { return bytes_of(copies_[chosen[i]]); });
  }

  void write_tensors(const std::string& file, const std::vector<TensorDeclaration>& declarations,
                     std::vector<CheckpointFile>& files,
                     const std::function<std::span<const std::byte>(std::size_t)>& bytes) {
    before(file);
    const std::pair<std::string, std::string> format = kTorchFormat;
    Checksum checksum;
    write_tensor_bytes(partial_ / file, declarations, bytes, std::span(&format, 1), &checksum);
    files.push_back({file, checksum.size_bytes(), checksum.value()});
  }

  // The parameters of all ranks: in the files of the model, or as they are.
  void write_model_files(std::vector<CheckpointFile>& files) {
    std::unordered_map<std::string, const StatePart*> parameters;
    for (const StatePart& part : parts_) {
      if (part.is_parameter) parameters.emplace(part.name, &part);
    }
    std::vector<std::unique_ptr<SafetensorsFile>> others;
    for (std::size_t rank = 1; rank < ranks_; ++rank) {
      std::error_code ignored;
      if (const fs::path path = partial_ / parameters_file(rank); fs::exists(path, ignored))
        others.push_back(std::make_unique<SafetensorsFile>(path));
    }
    std::vector<TensorDeclaration> rest;
    const auto in_model = [&](const ModelTensors* model) {
      for (const StatePart& part : parts_) {
        if (part.is_parameter && (model == nullptr || !model->contains(part.name)))
          rest.push_back({part.name, {part.stored, part.type.shape}});
      }
    };
    const auto whole = [&](const StatePart& part) { return whole_parameter(part, others); };
    HostTensor made;
    if (options_.model != nullptr) {
      ModelTensors model(
          *options_.model,
          [&](const ParameterDeclaration& one) {
            const auto found = parameters.find(one.name);
            if (found != parameters.end()) {
              HostTensor value = whole(*found->second);
              return value.type.dtype == DType::fp32 ? value : convert(value, DType::fp32);
            }
            const auto constant = constants_.find(one.name);
            if (constant == constants_.end()) throw Error(fmt::format("the program has no '{}'", one.name));
            return constant->second;
          },
          [&](const std::string& name) {
            const auto found = parameters.find(name);
            return found == parameters.end() ? DType::fp32 : found->second->stored;
          });
      write_tensors(std::string(kModelFile), model.declarations(), files,
                    [&](std::size_t i) -> std::span<const std::byte> {
                      made = model.value(i);
                      return made.data;
                    });
      write_config(files);
      in_model(&model);
    } else {
      in_model(nullptr);
    }
    if (!rest.empty()) {
      write_tensors(std::string(options_.model != nullptr ? kAdapterFile : kModelFile), rest, files,
                    [&](std::size_t i) -> std::span<const std::byte> {
                      made = whole(*parameters.at(rest[i].name));
                      return made.data;
                    });
    }
    others.clear();
    for (std::size_t rank = 1; rank < ranks_; ++rank) fs::remove(partial_ / parameters_file(rank));
  }

  void write_config(std::vector<CheckpointFile>& files) const {
    const std::string name = "config.json";
    before(name);
    const std::string text = model_config_json(*options_.model).dump(2) + "\n";
    write_file(partial_ / name, text);
    Checksum checksum;
    checksum.add(text);
    files.push_back({name, checksum.size_bytes(), checksum.value()});
  }

  HostTensor whole_parameter(const StatePart& part, const std::vector<std::unique_ptr<SafetensorsFile>>& others) const {
    HostTensor tensor;
    tensor.type = {part.stored, part.type.shape};
    if (const auto own = copy_of_.find(part.name); own != copy_of_.end()) {
      const std::span<const std::byte> bytes = bytes_of(copies_[own->second]);
      tensor.data.assign(bytes.begin(), bytes.end());
    }
    for (const auto& file : others) {
      if (!file->contains(part.name)) continue;
      const HostTensor theirs = file->read(part.name);
      tensor.data.insert(tensor.data.end(), theirs.data.begin(), theirs.data.end());
    }
    if (tensor.data.size() != tensor.type.bytes())
      throw Error(
          fmt::format("the ranks have {} of the {} bytes of '{}'", tensor.data.size(), tensor.type.bytes(), part.name));
    return tensor;
  }

  std::map<std::string, TensorType> tensors() const {
    std::map<std::string, TensorType> types;
    for (const StatePart& part : parts_) types.emplace(part.name, TensorType{part.stored, part.type.shape});
    return types;
  }

  static constexpr std::size_t kAlignment = 64;

  Program& program_;
  const CheckpointOptions options_;
  const std::size_t rank_, ranks_;
  std::optional<CheckpointFolder> folder_;  // of the first rank
  const std::vector<StatePart> parts_;
  std::vector<Copy> copies_;
  std::unordered_map<std::string, std::size_t> copy_of_;  // by name
  std::unordered_map<std::string, HostTensor> constants_;
  std::size_t memory_bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;  // NOLINT(cppcoreguidelines-avoid-c-arrays)
  std::shared_ptr<void> locked_;         // ends before the memory does

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
void CheckpointWriter::finish() { implementation_->finish(); }
std::optional<std::string> CheckpointWriter::take_problem() { return implementation_->take_problem(); }

}  // namespace ridgepoint::train
