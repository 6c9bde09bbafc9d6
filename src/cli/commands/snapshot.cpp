// ridgepoint snapshot: reads a memory snapshot, of PyTorch or of this program, and says where the memory goes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/sweep.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/width.h"
#include "core/files/file.h"
#include "core/text/throw_error.h"
#include "core/text/units.h"
#include "inspect/memory/analyse.h"
#include "inspect/memory/pages/page.h"
#include "inspect/memory/replay/replay.h"
#include "interchange/snapshot/reader/read_snapshot.h"

namespace ridgepoint::cli {
namespace {

class SnapshotCommand : public Command {
 public:
  std::string_view name() const override { return "snapshot"; }
  std::string_view summary() const override {
    return "read a memory snapshot (ours or PyTorch's): peaks, contents, phases, leaks, OOM";
  }
  std::string_view examples() const override {
    return "ridgepoint snapshot snapshot.pickle\n"
           "ridgepoint snapshot snapshot.pickle.gz --device 0 --top 30\n"
           "ridgepoint snapshot before.pickle --diff after.pickle\n"
           "ridgepoint snapshot snapshot.pickle --range 120:250 --picture memory.svg\n"
           "ridgepoint snapshot snapshot.pickle --replay --capacity 80GiB\n"
           "ridgepoint snapshot snapshot.pickle --replay --allocator expandable_segments:True --without logits\n"
           "ridgepoint snapshot snapshot.pickle --format json --output report.json";
  }
  std::string_view notes() const override {
    return "FILE is what torch.cuda.memory._dump_snapshot writes (a pickle of protocol 2 to 5), the same document as "
           "JSON, or either in gzip. Nothing in a pickle is run: one that is more than plain data is refused. Files of "
           "gigabytes are read once, with about 12 bytes of memory an event. docs/commands/snapshot.md says how each "
           "figure is found.";
  }

  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Snapshot");
    group.add("FILE", file_, "FILE", "the snapshot");
    device_option_ =
        group.add("--device", device_, "N", "show only the device with this number [every device in the file]");
    group.add("--diff,AFTER", diff_, "FILE", "compare with this later snapshot; it may also be a second FILE");
    group.add("--top", top_, "N", "rows in the tables of frames, leaks and failures; 0 shows all [15]");
    group.add("--range", range_, "MS:MS",
              "show only these milliseconds after the first event: 10:20; if the file has no times, these events");
    group.add_flag("--native", reading_.shows_native,
                   "show the innermost line of C++ instead of Python in the column of the library");
    group.add("--picture", picture_, "FILE", "write the timeline of the device as a picture (.svg)");
    add_replay_options(app);
    output_options_.add_to(app);
  }

  int run() override {
    require(!file_.empty(), "no file is given: ridgepoint snapshot FILE");
    require(top_ >= 0, "--top: {} is too small; the least is 0", top_);
    require(device_ >= 0, "--device: {} is too small; the least is 0", device_);
    output_options_.resolved_format();
    check_replay();
    require(picture_.empty() || picture_.ends_with(".svg"), "--picture: '{}' does not end in .svg", picture_);
    if (!picture_.empty()) check_writable(picture_);
    const auto top = static_cast<std::size_t>(top_);
    std::vector<std::string> paths = {file_};
    if (!diff_.empty()) paths.push_back(diff_);
    const std::vector<tables::SnapshotFileView> files = analyse(paths);
    if (files.size() == 2) require_common_device(files[0], files[1]);
    write(output_options_, [&](Format format, std::size_t) {
      return files.size() == 2 ? tables::snapshot_difference_page(files[0], files[1], top, format)
                               : tables::snapshot_page(files[0], top, format);
    });
    return kExitOk;
  }

 private:
  void add_replay_options(CLI::App& app) {
    const OptionGroup replay(app, "Replay");
    replay.add_flag("--replay", replays_,
                    "ask PyTorch's allocator for the recorded requests again, with other settings: what it would "
                    "reserve, whether it fits, and the least memory that suffices");
    replay
        .add("--allocator", settings_, "SETTING",
             "with --replay: only this setting, as PYTORCH_CUDA_ALLOC_CONF has it, such as "
             "expandable_segments:True,max_split_size_mb:128, or default; may be given several times [the file's own, "
             "and those that people try]")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    replay.add("--capacity", capacity_, "SIZE",
               "with --replay: the most that may be reserved, as set_per_process_memory_fraction limits it [what the "
               "device allowed where a request failed; otherwise no limit]");
    replay.add(
        "--without", reading_.marked, "TEXT",
        "with --replay: leave out the blocks of this category, or those with a line of their stack that has this text");
  }

  void check_replay() {
    const char* given = !settings_.empty() ? "--allocator" : !capacity_.empty() ? "--capacity" : "--without";
    const bool has_options = !settings_.empty() || !capacity_.empty() || !reading_.marked.empty();
    require(replays_ || !has_options, "{} is an option of --replay; add it", given);
    require(!replays_ || diff_.empty(), "--replay: one file is replayed; leave --diff out");
    require(!replays_ || range_.empty(), "--replay asks for all requests of a file again; leave --range out");
    replay_.without = reading_.marked;
    for (const std::string& setting : settings_)
      replay_.settings.push_back(parse_option("--allocator", setting, allocator_setting));
    if (!capacity_.empty())
      replay_.capacity_bytes = static_cast<std::uint64_t>(parse_option("--capacity", capacity_, parse_bytes));
  }

  // With --replay of each device with a history. Otherwise of a file in which a request failed, where a replay takes no
  // more than about a second.
  std::optional<MemoryReplay> replay_of(const std::string& path, const Snapshot& snapshot,
                                        const MemoryAnalysis& analysis, std::size_t files) const {
    constexpr std::uint64_t kMostEvents = std::uint64_t{1} << 18;
    const MemoryReport& report = analysis.report;
    if (!replays_ && (files > 1 || report.out_of_memory.empty() || report.events > kMostEvents)) return {};
    const auto has_history = [&](std::int64_t device) { return history_of(snapshot, device).size() > 0; };
    if (!has_history(report.device) && std::ranges::any_of(chosen_devices(path, snapshot), has_history)) return {};
    constexpr std::uint64_t kFewEvents = std::uint64_t{1} << 15;
    ReplayOptions options = replay_;
    options.finds_least_capacity = replays_ || report.events <= kFewEvents;
    try {
      return replay_history(snapshot, report.device, analysis, options, stop_if_interrupted);
    } catch (const Error& error) {
      throw_error(error.kind(), "'{}' cannot be replayed: {}", path, error.what());
    }
  }

  // Microseconds, or events of a file without times.
  std::optional<MemoryRange> range_of(const Snapshot& snapshot, std::int64_t device) const {
    constexpr std::int64_t kUsOfMs = 1000;
    if (range_.empty()) return std::nullopt;
    const bool has_times = history_of(snapshot, device).has_times() && snapshot.settings.has_clock;
    const auto [begin, end] = parse_option(
        "--range", range_, [&](std::string_view text) { return parse_range(text, has_times ? kUsOfMs : 1); });
    return MemoryRange{begin, end};
  }

  MemoryAnalysis analysis_of(const std::string& path, const Snapshot& snapshot, std::int64_t device) const {
    const std::optional<MemoryRange> range = range_of(snapshot, device);
    try {
      return analyse_memory(snapshot, device, stop_if_interrupted, {}, range);
    } catch (const Error& error) {
      if (!range) throw;
      throw_error(error.kind(), "--range: '{}', device {}: {}", path, device, error.what());
    }
  }

  std::vector<tables::SnapshotFileView> analyse(const std::vector<std::string>& paths) const {
    const bool is_drawn = paths.size() == 1 && output_options_.resolved_format() == Format::table;
    const std::size_t width = page_width();
    std::vector<tables::SnapshotFileView> files;
    Progress progress(std::vector<double>(paths.size(), 1));
    for (const std::string& path : paths) {
      progress.start_row(files.size(), path);
      const Snapshot snapshot = read_snapshot(
          path,
          [&](double share) {
            stop_if_interrupted();
            constexpr double kShareOfReading = 0.8;
            progress.update("reading", kShareOfReading * share);
          },
          reading_);
      files.push_back({path, snapshot.format, {}});
      files.back().shows_replays = replays_;
      for (const std::int64_t device : chosen_devices(path, snapshot)) {
        MemoryAnalysis analysis = analysis_of(path, snapshot, device);
        if (is_drawn) {
          files.back().timelines.push_back(make_timeline(snapshot, analysis, usual_axis(analysis.report),
                                                         tables::timeline_columns(width), stop_if_interrupted));
        }
        if (!picture_.empty()) draw(path, snapshot, analysis);
        files.back().replays.push_back(replay_of(path, snapshot, analysis, paths.size()));
        files.back().devices.push_back(std::move(analysis.report));
      }
    }
    return files;
  }

  void draw(const std::string& path, const Snapshot& snapshot, const MemoryAnalysis& analysis) const {
    require(diff_.empty(), "--picture: one file is drawn; leave --diff out");
    require(chosen_devices(path, snapshot).size() == 1, "--picture: '{}' has several devices; choose one with --device",
            path);
    if (analysis.report.events == 0) throw_error("--picture: '{}' has no history to draw", path);
    write_file(picture_, tables::timeline_svg(path, snapshot, analysis));
  }

  std::vector<std::int64_t> chosen_devices(const std::string& path, const Snapshot& snapshot) const {
    std::vector<std::int64_t> devices = devices_of(snapshot);
    if (device_option_->count() == 0) return devices;
    if (std::ranges::find(devices, device_) == devices.end()) {
      refuse("--device: '{}' has nothing of device {}; it has {}", path, device_,
             devices.empty() ? "no device" : fmt::format("{}", fmt::join(devices, ", ")));
    }
    return {device_};
  }

  static void require_common_device(const tables::SnapshotFileView& a, const tables::SnapshotFileView& b) {
    const bool have_common = std::ranges::any_of(a.devices, [&](const MemoryReport& report) {
      return std::ranges::find(b.devices, report.device, &MemoryReport::device) != b.devices.end();
    });
    if (!have_common) throw_error("'{}' and '{}' have no device in common", a.path, b.path);
  }

  std::string file_, diff_, picture_, capacity_, range_;
  SnapshotReadOptions reading_;
  std::vector<std::string> settings_;
  bool replays_ = false;
  ReplayOptions replay_;
  std::int64_t device_ = 0, top_ = 15;
  const CLI::Option* device_option_ = nullptr;
  OutputOptions output_options_;
};

}  // namespace

std::unique_ptr<Command> make_snapshot() { return std::make_unique<SnapshotCommand>(); }

}  // namespace ridgepoint::cli
