#include "inspect/profile/trace_events.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/file.h"
#include "core/text/json.h"
#include "inspect/profile/communication.h"
#include "ir/scope.h"
#include "runtime/device/process_group.h"

namespace ridgepoint {
namespace {

// Ids of processes and tracks; the format calls a track a thread.
constexpr int kFirstHost = 1;
constexpr int kFirstDevice = 2;
constexpr int kProcessesOfRank = 2;
constexpr int kStepTrack = 1;
constexpr int kLaunchTrack = 2;
constexpr int kPhaseTrack = 1;
constexpr int kModuleTrack = 2;
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

// Takes the text of the trace piece by piece.
using Sink = std::function<void(std::string_view)>;

struct Slice {
  std::int64_t begin_ns;
  std::int64_t end_ns;
};

class TraceWriter {
 public:
  TraceWriter(const Profile& profile, const TraceRank& rank, Sink sink)
      : profile_(profile), rank_(rank), sink_(std::move(sink)) {}

  // The events, with commas between them.
  void events() {
    name_tracks();
    steps();
    ranges();
    kernels();
    sink_(text_);
  }

  std::string facts() const {
    const Record& run = profile_.run;
    return fmt::format(
        R"({{"program":"ridgepoint {}","model":{},"mode":{},"batch":"{}","context":"{}","dtype":{},"device":{}}})",
        run.build.version, dump_json(run.model.name), dump_json(name(run.mode)), run.batch, run.context,
        dump_json(name(run.dtype)), dump_json(run.device.name));
  }

 private:
  void event(const std::string& body) {
    text_ += first_ ? "{" : ",\n{";
    first_ = false;
    text_ += body + '}';
    if (text_.size() < kChunkBytes) return;
    sink_(text_);
    text_.clear();
  }

  // A rank has two processes of the trace, and times by the clock of rank 0.
  std::string at(std::int64_t ns) const { return microseconds(ns + rank_.shift_ns); }
  std::string in_rank(std::string_view name) const {
    return dump_json(rank_.ranks > 1 ? fmt::format("rank {} {}", rank_.rank, name) : std::string(name));
  }

  static std::string place(const Track& track) {
    return fmt::format("\"pid\":{},\"tid\":{}", track.process, track.thread);
  }

  void slice(const Track& track, std::string_view name, std::string_view category, const Slice& at,
             const std::string& arguments) {
    event(fmt::format(R"("ph":"X",{},"name":{},"cat":"{}","ts":{},"dur":{},"args":{{{}}})", place(track),
                      dump_json(name), category, this->at(at.begin_ns), microseconds(at.end_ns - at.begin_ns),
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
    metadata({host_, kStepTrack}, "process_name", "\"name\":" + in_rank("host"));
    metadata({host_, kStepTrack}, "process_sort_index",
             fmt::format("\"sort_index\":{}", kProcessesOfRank * rank_.rank));
    metadata({device_, kPhaseTrack}, "process_name",
             "\"name\":" + in_rank(profile_.run.device.kind + ": " + profile_.run.device.name));
    metadata({device_, kPhaseTrack}, "process_sort_index",
             fmt::format("\"sort_index\":{}", kProcessesOfRank * rank_.rank + 1));
    name_track({host_, kStepTrack}, "steps", 0);
    name_track({host_, kLaunchTrack}, "launches", 1);
    name_track({device_, kPhaseTrack}, "phases", 0);
    name_track({device_, kModuleTrack}, "modules", 1);
    std::map<std::uint32_t, bool> streams;  // whether collectives run on it
    for (const KernelRecord& kernel : profile_.kernels)
      streams[kernel.stream] = streams[kernel.stream] || kernel.kernel_class == KernelClass::communication;
    int order = 2;
    for (const auto& [stream, is_of_collectives] : streams) {
      const char* what = is_of_collectives ? "stream {}, collectives" : "stream {}";
      name_track({device_, kFirstStream + stream}, fmt::format(fmt::runtime(what), stream), order++);
    }
  }

  void steps() {
    for (std::size_t i = 0; i < profile_.steps.size(); ++i) {
      const ProfiledStep& step = profile_.steps[i];
      slice({host_, kStepTrack}, fmt::format("{} {}", name(profile_.run.mode), i), "step", {step.begin_ns, step.end_ns},
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
      // Copies and fills belong to no phase, and collectives run beside the kernels of one.
      if (kernel.kind != ActivityKind::kernel || kernel.kernel_class == KernelClass::communication) continue;
      phases.extend({std::string(name(kernel.phase))}, kernel);
      modules.extend(scope_levels(kernel.scope), kernel);
    }
    for (const Range& range : phases.in_order()) slice({device_, kPhaseTrack}, range.name, "phase", range.at, "");
    for (const Range& range : modules.in_order()) slice({device_, kModuleTrack}, range.name, "module", range.at, "");
  }

  // The slice of each kernel's launch. Collectives may begin long after kernels that were launched later.
  std::vector<Slice> launches() {
    std::vector<std::size_t> order(profile_.kernels.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return profile_.kernels[i].call_start_ns; });
    std::vector<Slice> calls(order.size());
    std::int64_t calls_end_ns = INT64_MIN;
    std::int64_t call_begin_ns = INT64_MIN;  // as recorded, of the slice where the flow begins
    Slice call{0, 0};
    for (const std::size_t i : order) {
      const KernelRecord& kernel = profile_.kernels[i];
      // One API call may start several kernels; they share its slice.
      if (kernel.call_start_ns != call_begin_ns) {
        call_begin_ns = kernel.call_start_ns;
        call = following(calls_end_ns, kernel.call_start_ns, kernel.call_start_ns + kernel.call_duration_ns);
        if (profile_.captured) {
          slice({host_, kLaunchTrack}, "captured run", "launch", call, "");
        } else {
          slice({host_, kLaunchTrack}, kernel.op.empty() ? kernel.name : kernel.op, "launch", call,
                node_arguments(kernel));
        }
      }
      calls[i] = call;
    }
    return calls;
  }

  void kernels() {
    const std::vector<Slice> calls = launches();
    std::map<std::uint32_t, std::int64_t> stream_end_ns;
    for (std::size_t i = 0; i < profile_.kernels.size(); ++i) {
      const KernelRecord& kernel = profile_.kernels[i];
      const Track track{device_, kFirstStream + kernel.stream};
      std::int64_t& end_ns = stream_end_ns.try_emplace(kernel.stream, INT64_MIN).first->second;
      const Slice ran = following(end_ns, kernel.start_ns, kernel.end_ns());
      slice(track, kernel.name, name(kernel.kernel_class), ran,
            node_arguments(kernel) + "," + launch_arguments(kernel, i));
      flow("s", {host_, kLaunchTrack}, i, calls[i].begin_ns);
      flow("f", track, i, std::max(ran.begin_ns, calls[i].begin_ns));
    }
  }

  // Moves a slice so that it begins no earlier than `end_ns`, the end of the previous slice, and updates `end_ns`.
  static Slice following(std::int64_t& end_ns, std::int64_t begin, std::int64_t end) {
    const Slice moved{std::max(begin, end_ns), std::max({begin, end, end_ns})};
    end_ns = moved.end_ns;
    return moved;
  }

  void flow(std::string_view kind, const Track& track, std::size_t id, std::int64_t at_ns) {
    event(fmt::format(R"("ph":"{}",{},"name":"launch","cat":"flow","id":{},"ts":{}{})", kind, place(track),
                      (static_cast<std::size_t>(rank_.rank) << 32U) + id, at(at_ns),
                      kind == "f" ? ",\"bp\":\"e\"" : ""));
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

  const Profile& profile_;
  const TraceRank rank_;
  const int host_ = kFirstHost + kProcessesOfRank * rank_.rank;
  const int device_ = kFirstDevice + kProcessesOfRank * rank_.rank;
  const Sink sink_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

std::string trace_events(const Profile& profile, const TraceRank& rank) {
  std::string text;
  TraceWriter(profile, rank, [&](std::string_view piece) { text += piece; }).events();
  return text;
}

std::vector<std::string> gather_trace_events(const Profile& profile, ProcessGroup& group) {
  const std::vector<std::int64_t> offsets = clock_offsets(group);
  const auto mine = static_cast<std::size_t>(group.rank());
  const std::int64_t begin_ns = profile.begin_ns - offsets[mine];
  const std::int64_t first_begin_ns =
      std::stoll(group.all_gather(std::to_string(begin_ns), "the beginnings of traces").front());
  std::vector<std::string> all = group.all_gather(
      mine == 0 ? "" : trace_events(profile, {group.rank(), group.ranks(), begin_ns - first_begin_ns}), "traces");
  all.erase(all.begin());
  return all;
}

void write_trace(const std::filesystem::path& path, const Profile& profile, std::span<const std::string> other_ranks) {
  OutputFile file(path);
  TraceWriter writer(profile, {0, static_cast<int>(other_ranks.size()) + 1},
                     [&](std::string_view piece) { file.write(piece); });
  file.write(fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n", writer.facts()));
  writer.events();
  for (const std::string& events : other_ranks) {
    if (!events.empty()) file.write(",\n" + events);
  }
  file.write("\n]}\n");
  file.commit();
}

}  // namespace ridgepoint
