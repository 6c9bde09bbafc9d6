#include "measure/profile/trace_events.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "core/text/json.h"
#include "ir/scope.h"

namespace ridgepoint {
namespace {

// Ids of processes and tracks; the format calls a track a thread.
constexpr int kHost = 1;
constexpr int kDevice = 2;
constexpr int kSteps = 1;
constexpr int kLaunches = 2;
constexpr int kPhases = 1;
constexpr int kModules = 2;
constexpr std::uint32_t kFirstStream = 10;

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

struct Track {
  int process;
  std::uint32_t thread;
};

// Nanoseconds to microseconds, without rounding.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

struct Slice {
  std::int64_t begin_ns;
  std::int64_t end_ns;
};

class TraceWriter {
 public:
  TraceWriter(const std::filesystem::path& path, const Profile& profile) : file_(path), profile_(profile) {}

  void write() {
    text_ = fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n", facts());
    name_tracks();
    steps();
    ranges();
    kernels();
    text_ += "\n]}\n";
    file_.write(text_);
    file_.commit();
  }

 private:
  std::string facts() const {
    const Record& run = profile_.run;
    return fmt::format(
        R"({{"program":"ridgepoint {}","model":{},"mode":{},"batch":"{}","context":"{}","dtype":{},"device":{}}})",
        run.build.version, dump_json(run.model.name), dump_json(name(run.mode)), run.batch, run.context,
        dump_json(name(run.dtype)), dump_json(run.device.name));
  }

  void event(const std::string& body) {
    text_ += first_ ? "{" : ",\n{";
    first_ = false;
    text_ += body + '}';
    if (text_.size() < kChunkBytes) return;
    file_.write(text_);
    text_.clear();
  }

  static std::string place(const Track& track) {
    return fmt::format("\"pid\":{},\"tid\":{}", track.process, track.thread);
  }

  void slice(const Track& track, std::string_view name, std::string_view category, const Slice& at,
             const std::string& arguments) {
    event(fmt::format(R"("ph":"X",{},"name":{},"cat":"{}","ts":{},"dur":{},"args":{{{}}})", place(track),
                      dump_json(name), category, microseconds(at.begin_ns), microseconds(at.end_ns - at.begin_ns),
                      arguments));
  }

  void metadata(const Track& track, std::string_view what, const std::string& arguments) {
    event(fmt::format(R"("ph":"M",{},"name":"{}","args":{{{}}})", place(track), what, arguments));
  }
  void name_track(const Track& track, std::string_view name, int order) {
    metadata(track, "thread_name", "\"name\":" + dump_json(name));
    metadata(track, "thread_sort_index", fmt::format("\"sort_index\":{}", order));
  }

  void name_tracks() {
    metadata({kHost, kSteps}, "process_name", "\"name\":\"host\"");
    metadata({kHost, kSteps}, "process_sort_index", "\"sort_index\":0");
    metadata({kDevice, kPhases}, "process_name",
             "\"name\":" + dump_json(profile_.run.device.kind + ": " + profile_.run.device.name));
    metadata({kDevice, kPhases}, "process_sort_index", "\"sort_index\":1");
    name_track({kHost, kSteps}, "steps", 0);
    name_track({kHost, kLaunches}, "launches", 1);
    name_track({kDevice, kPhases}, "phases", 0);
    name_track({kDevice, kModules}, "modules", 1);
    std::map<std::uint32_t, bool> streams;
    for (const KernelRecord& kernel : profile_.kernels) streams[kernel.stream] = true;
    int order = 2;
    for (const auto& [stream, used] : streams) {
      name_track({kDevice, kFirstStream + stream}, fmt::format("stream {}", stream), order++);
    }
  }

  void steps() {
    for (std::size_t i = 0; i < profile_.steps.size(); ++i) {
      const ProfiledStep& step = profile_.steps[i];
      slice({kHost, kSteps}, fmt::format("{} {}", name(profile_.run.mode), i), "step", {step.begin_ns, step.end_ns},
            "");
    }
  }

  // Consecutive kernels of one phase, or of one module at some level of nesting.
  struct Range {
    std::string name;
    Slice at;
    std::size_t level;
  };

  // Collects the ranges of one track from kernels in order of their start. Levels that a kernel shares with the
  // previous kernel stay open.
  class RangeTrack {
   public:
    void extend(const std::vector<std::string>& path, const KernelRecord& kernel) {
      std::size_t same = 0;
      while (same < open_.size() && same < path.size() && open_[same].name == path[same]) ++same;
      close(same);
      const std::int64_t begin_ns = std::max(kernel.start_ns, end_ns_);
      for (std::size_t i = same; i < path.size(); ++i) open_.push_back({path[i], {begin_ns, begin_ns}, i});
      end_ns_ = std::max(begin_ns, kernel.end_ns());
      for (Range& range : open_) range.at.end_ns = end_ns_;
    }
    void close(std::size_t keep = 0) {
      std::move(open_.begin() + static_cast<std::ptrdiff_t>(keep), open_.end(), std::back_inserter(closed_));
      open_.resize(keep);
    }
    // A parent comes before a child that begins at the same time: viewers nest slices in this order.
    const std::vector<Range>& in_order() {
      close();
      std::ranges::stable_sort(closed_, [](const Range& a, const Range& b) {
        return a.at.begin_ns != b.at.begin_ns ? a.at.begin_ns < b.at.begin_ns : a.level < b.level;
      });
      return closed_;
    }

   private:
    std::vector<Range> open_, closed_;
    std::int64_t end_ns_ = INT64_MIN;
  };

  void ranges() {
    RangeTrack phases, modules;
    std::uint32_t step = 0;
    for (const KernelRecord& kernel : profile_.kernels) {
      if (kernel.step != step) {
        phases.close();
        modules.close();
        step = kernel.step;
      }
      // Copies and fills belong to no phase.
      if (kernel.kind != ActivityKind::kernel) continue;
      phases.extend({std::string(name(kernel.phase))}, kernel);
      modules.extend(scope_levels(kernel.scope), kernel);
    }
    for (const Range& range : phases.in_order()) slice({kDevice, kPhases}, range.name, "phase", range.at, "");
    for (const Range& range : modules.in_order()) slice({kDevice, kModules}, range.name, "module", range.at, "");
  }

  void kernels() {
    std::map<std::uint32_t, std::int64_t> stream_end_ns;
    std::int64_t calls_end_ns = INT64_MIN;
    std::int64_t call_begin_ns = INT64_MIN;  // as recorded, of the slice where the flow begins
    Slice call{0, 0};
    for (std::size_t i = 0; i < profile_.kernels.size(); ++i) {
      const KernelRecord& kernel = profile_.kernels[i];
      // One API call may start several kernels; they share its slice.
      if (kernel.call_start_ns != call_begin_ns) {
        call_begin_ns = kernel.call_start_ns;
        call = following(calls_end_ns, kernel.call_start_ns, kernel.call_start_ns + kernel.call_duration_ns);
        if (profile_.captured) {
          slice({kHost, kLaunches}, "captured run", "launch", call, "");
        } else {
          slice({kHost, kLaunches}, kernel.op.empty() ? kernel.name : kernel.op, "launch", call,
                node_arguments(kernel));
        }
      }
      const Track track{kDevice, kFirstStream + kernel.stream};
      std::int64_t& end_ns = stream_end_ns.try_emplace(kernel.stream, INT64_MIN).first->second;
      const Slice ran = following(end_ns, kernel.start_ns, kernel.end_ns());
      slice(track, kernel.name, name(kernel.kernel_class), ran,
            node_arguments(kernel) + "," + launch_arguments(kernel, i));
      flow("s", {kHost, kLaunches}, i, call.begin_ns);
      flow("f", track, i, std::max(ran.begin_ns, call.begin_ns));
    }
  }

  // Moves a slice so that it begins no earlier than `end_ns`, the end of the previous slice, and updates `end_ns`.
  static Slice following(std::int64_t& end_ns, std::int64_t begin, std::int64_t end) {
    const Slice moved{std::max(begin, end_ns), std::max({begin, end, end_ns})};
    end_ns = moved.end_ns;
    return moved;
  }

  void flow(std::string_view kind, const Track& track, std::size_t id, std::int64_t at_ns) {
    event(fmt::format(R"("ph":"{}",{},"name":"launch","cat":"flow","id":{},"ts":{}{})", kind, place(track), id,
                      microseconds(at_ns), kind == "f" ? ",\"bp\":\"e\"" : ""));
  }

  static std::string node_arguments(const KernelRecord& kernel) {
    return fmt::format(R"("op":{},"scope":{},"phase":"{}","node":{})", dump_json(kernel.op), dump_json(kernel.scope),
                       name(kernel.phase), kernel.node == UINT32_MAX ? -1 : static_cast<std::int64_t>(kernel.node));
  }

  static std::string launch_arguments(const KernelRecord& kernel, std::size_t correlation) {
    std::string text =
        fmt::format(R"("flops":{},"bytes":{},"correlation":{})", kernel.flops, kernel.bytes, correlation);
    if (kernel.grid[0] > 0) {
      text += fmt::format(R"(,"grid":[{}],"block":[{}],"registers":{},"shared memory":{})", fmt::join(kernel.grid, ","),
                          fmt::join(kernel.block, ","), kernel.registers, kernel.shared_bytes);
    }
    return text;
  }

  OutputFile file_;
  const Profile& profile_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

void write_trace(const std::filesystem::path& path, const Profile& profile) { TraceWriter(path, profile).write(); }

}  // namespace ridgepoint
