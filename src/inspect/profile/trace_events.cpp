#include "inspect/profile/trace_events.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "core/files/file.h"
#include "core/text/json.h"
#include "inspect/profile/communication.h"
#include "ir/scope.h"
#include "runtime/device/communicator.h"

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
constexpr const char* kStep = "user_annotation";
constexpr const char* kOp = "cpu_op";
constexpr const char* kRange = "gpu_user_annotation";

// The category of a kernel, and the call of the CUDA runtime that launches it.
const char* category_of(ActivityKind kind) {
  return kind == ActivityKind::kernel ? "kernel" : kind == ActivityKind::copy ? "gpu_memcpy" : "gpu_memset";
}
const char* call_of(ActivityKind kind) {
  return kind == ActivityKind::kernel ? "cudaLaunchKernel"
         : kind == ActivityKind::copy ? "cudaMemcpyAsync"
                                      : "cudaMemsetAsync";
}

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

// Of the profile's clock, at most 0.
std::int64_t earliest_ns(const Profile& profile) {
  std::int64_t earliest = 0;
  for (const KernelRecord& kernel : profile.kernels)
    earliest = std::min({earliest, kernel.start_ns, kernel.call_start_ns});
  return earliest;
}

std::string dims_of(const std::vector<TensorType>& tensors) {
  std::string text;
  for (const TensorType& tensor : tensors) {
    std::string dims;
    for (const Dim& dim : tensor.shape.dims()) dims += fmt::format("{}{}", dims.empty() ? "" : ",", dim.size);
    text += fmt::format("{}[{}]", text.empty() ? "" : ",", dims);
  }
  return text;
}
std::string types_of(const std::vector<TensorType>& tensors) {
  std::string text;
  for (const TensorType& tensor : tensors) text += fmt::format("{}\"{}\"", text.empty() ? "" : ",", name(tensor.dtype));
  return text;
}

// The wall clock when the profile's clock was 0.
std::int64_t base_unix_ns(const Profile& profile) {
  using std::chrono::duration_cast, std::chrono::nanoseconds, std::chrono::steady_clock, std::chrono::system_clock;
  const auto now = duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
  const auto steady = duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
  return now - (steady - profile.begin_ns);
}

class TraceWriter {
 public:
  TraceWriter(const Profile& profile, const TraceOfRanks& rank, Sink sink)
      : profile_(profile), rank_(rank), sink_(std::move(sink)) {}

  // The events, with commas between them.
  void events() {
    name_tracks();
    steps();
    ranges();
    kernels();
    memory();
    sink_(text_);
  }

  // The members of the trace beside its events. HolisticTraceAnalysis searches for "rank": with the blank.
  std::string facts() const {
    const Record& run = profile_.run;
    std::string text =
        fmt::format("\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": {},\n",
                    base_unix_ns(profile_) - rank_.shift_ns);
    text += fmt::format("\"distributedInfo\": {{\"backend\": \"{}\", \"rank\": {}, \"world_size\": {}}},\n",
                        is_cuda() ? "nccl" : "mpi", rank_.rank, rank_.ranks);
    if (is_cuda())
      text += fmt::format("\"deviceProperties\": [{{\"id\": 0, \"name\": {}, \"totalGlobalMem\": {}}}],\n",
                          dump_json(run.device.name), run.device.total_memory_bytes.value_or(0));
    return text +
           fmt::format(
               R"("otherData": {{"program":"ridgepoint {}","model":{},"mode":{},"batch":"{}","context":"{}","dtype":{},"device":{}}})",
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

  bool is_cuda() const { return profile_.run.device.kind == "cuda"; }

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
    name_track({host_, kLaunchTrack}, "ops and launches", 1);
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
      slice({host_, kStepTrack}, fmt::format("ProfilerStep#{}", i), kStep, {step.begin_ns, step.end_ns},
            fmt::format("\"mode\":\"{}\"", name(profile_.run.mode)));
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
    for (const Range& range : phases.in_order()) slice({device_, kPhaseTrack}, range.name, kRange, range.at, "");
    for (const Range& range : modules.in_order()) slice({device_, kModuleTrack}, range.name, kRange, range.at, "");
  }

  // A call of the host. One may start several kernels, of which this is the first.
  struct Call {
    std::size_t kernel = 0;
    Slice at{0, 0};
    std::uint64_t op = 0;  // the number of the op that it belongs to
  };

  // Fills calls_ in their order, and the call of each kernel. Collectives may begin long after kernels that were
  // launched later.
  void find_calls() {
    std::vector<std::size_t> order(profile_.kernels.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return profile_.kernels[i].call_start_ns; });
    call_of_.resize(order.size());
    std::int64_t calls_end_ns = INT64_MIN;
    for (const std::size_t i : order) {
      const KernelRecord& kernel = profile_.kernels[i];
      const bool is_new =
          calls_.empty() || profile_.kernels[calls_.back().kernel].call_start_ns != kernel.call_start_ns;
      if (is_new) {
        const Slice at = following(calls_end_ns, kernel.call_start_ns, kernel.call_start_ns + kernel.call_duration_ns);
        calls_.push_back({i, at});
      }
      call_of_[i] = calls_.size() - 1;
    }
  }

  bool is_same_op(const Call& a, const Call& b) const {
    const KernelRecord &first = profile_.kernels[a.kernel], &second = profile_.kernels[b.kernel];
    return first.node == second.node && first.step == second.step && first.node != UINT32_MAX;
  }

  // Numbers that are unique among all ranks.
  std::uint64_t unique(std::size_t number) const { return (static_cast<std::uint64_t>(rank_.rank) << 32U) + number; }

  // Each op around its calls. A captured run is one call.
  void host() {
    std::map<std::pair<std::uint32_t, std::string>, Slice> forward;  // the last op of a module, by step and module
    std::set<std::pair<std::uint32_t, std::string>> has_backward;
    for (std::size_t begin = 0, end = 0; begin < calls_.size(); begin = end) {
      while (end < calls_.size() && is_same_op(calls_[begin], calls_[end])) ++end;
      end = std::max(end, begin + 1);
      const KernelRecord& kernel = profile_.kernels[calls_[begin].kernel];
      const Slice op{calls_[begin].at.begin_ns, calls_[end - 1].at.end_ns};
      if (!profile_.captured)
        slice({host_, kLaunchTrack}, kernel.op.empty() ? kernel.name : kernel.op, kOp, op,
              op_arguments(kernel, unique(begin)));
      for (std::size_t i = begin; i < end; ++i) {
        calls_[i].op = unique(begin);
        call(i);
      }
      if (profile_.captured || kernel.scope.empty()) continue;
      const std::pair<std::uint32_t, std::string> module(kernel.step, kernel.scope);
      const bool is_backward = kernel.phase == ProfilePhase::backward;
      if (kernel.phase == ProfilePhase::forward || kernel.phase == ProfilePhase::loss)
        forward.insert_or_assign(module, op);
      if (!is_backward || !forward.contains(module) || !has_backward.insert(module).second) continue;
      const Track track{host_, kLaunchTrack};
      flow("fwdbwd", "s", track, unique(begin), forward.at(module).begin_ns);
      flow("fwdbwd", "f", track, unique(begin), op.begin_ns);
    }
  }

  // Only the CUDA runtime has calls apart from ops.
  void call(std::size_t number) {
    const KernelRecord& kernel = profile_.kernels[calls_[number].kernel];
    const std::string correlation = fmt::format("\"correlation\":{}", unique(number));
    if (is_cuda()) {
      slice({host_, kLaunchTrack}, profile_.captured ? "cudaGraphLaunch" : call_of(kernel.kind), "cuda_runtime",
            calls_[number].at, correlation);
    } else if (profile_.captured) {
      slice({host_, kLaunchTrack}, "captured run", kOp, calls_[number].at, correlation);
    }
  }

  void kernels() {
    find_calls();
    host();
    std::map<std::uint32_t, std::int64_t> stream_end_ns;
    for (std::size_t i = 0; i < profile_.kernels.size(); ++i) {
      const KernelRecord& kernel = profile_.kernels[i];
      const Call& call = calls_[call_of_[i]];
      const Track track{device_, kFirstStream + kernel.stream};
      std::int64_t& end_ns = stream_end_ns.try_emplace(kernel.stream, INT64_MIN).first->second;
      const Slice ran = following(end_ns, kernel.start_ns, kernel.end_ns());
      slice(track, kernel.name, category_of(kernel.kind), ran,
            fmt::format(R"({},"External id":{},"class":"{}","device":0,"stream":{},"correlation":{},{})",
                        node_arguments(kernel), call.op, name(kernel.kernel_class), kernel.stream, unique(call_of_[i]),
                        launch_arguments(kernel)));
      flow("ac2g", "s", {host_, kLaunchTrack}, unique(i), call.at.begin_ns);
      flow("ac2g", "f", track, unique(i), std::max(ran.begin_ns, call.at.begin_ns));
    }
  }

  // What is live by the plan, from the begin of each kernel on.
  void memory() {
    std::size_t last = SIZE_MAX;
    for (const KernelRecord& kernel : profile_.kernels) {
      const auto node = profile_.nodes.find(kernel.node);
      if (node == profile_.nodes.end() || node->second.live_bytes == last) continue;
      last = node->second.live_bytes;
      event(fmt::format(R"("ph":"C",{},"name":"live memory","ts":{},"args":{{"bytes":{}}})", place({device_, 0}),
                        at(kernel.start_ns), last));
    }
  }

  // Moves a slice so that it begins no earlier than `end_ns`, the end of the previous slice, and updates `end_ns`.
  static Slice following(std::int64_t& end_ns, std::int64_t begin, std::int64_t end) {
    const Slice moved{std::max(begin, end_ns), std::max({begin, end, end_ns})};
    end_ns = moved.end_ns;
    return moved;
  }

  void flow(std::string_view what, std::string_view kind, const Track& track, std::uint64_t id, std::int64_t at_ns) {
    event(fmt::format(R"("ph":"{0}",{1},"name":"{2}","cat":"{2}","id":{3},"ts":{4}{5})", kind, place(track), what, id,
                      at(at_ns), kind == "f" ? ",\"bp\":\"e\"" : ""));
  }

  std::string op_arguments(const KernelRecord& kernel, std::uint64_t number) const {
    std::string text = fmt::format("{},\"External id\":{}", node_arguments(kernel), number);
    const auto node = profile_.nodes.find(kernel.node);
    if (node == profile_.nodes.end()) return text;
    return text + fmt::format(R"(,"Input Dims":[{}],"Input type":[{}],"Output Dims":[{}],"Output type":[{}])",
                              dims_of(node->second.inputs), types_of(node->second.inputs),
                              dims_of(node->second.outputs), types_of(node->second.outputs));
  }

  static std::string node_arguments(const KernelRecord& kernel) {
    return fmt::format(R"("op":{},"scope":{},"phase":"{}","node":{})", dump_json(kernel.op), dump_json(kernel.scope),
                       name(kernel.phase), kernel.node == UINT32_MAX ? -1 : static_cast<std::int64_t>(kernel.node));
  }

  static std::string launch_arguments(const KernelRecord& kernel) {
    std::string text = fmt::format(R"("flops":{},"bytes":{})", kernel.flops, kernel.bytes);
    if (kernel.grid[0] > 0) {
      text += fmt::format(R"(,"grid":[{}],"block":[{}],"registers":{},"shared memory":{})", fmt::join(kernel.grid, ","),
                          fmt::join(kernel.block, ","), kernel.registers, kernel.shared_bytes);
    }
    return text;
  }

  const Profile& profile_;
  const TraceOfRanks& rank_;
  const int host_ = kFirstHost + kProcessesOfRank * rank_.rank;
  const int device_ = kFirstDevice + kProcessesOfRank * rank_.rank;
  const Sink sink_;
  std::vector<Call> calls_;
  std::vector<std::size_t> call_of_;  // by kernel
  std::string text_;
  bool first_ = true;
};

}  // namespace

TraceOfRanks trace_of_one(const Profile& profile) { return {.shift_ns = -earliest_ns(profile)}; }

TraceOfRanks gather_trace_events(const Profile& profile, ProcessGroup& group, TraceFiles files) {
  const std::vector<std::int64_t> offsets = clock_offsets(group);
  const auto mine = static_cast<std::size_t>(group.rank());
  const std::int64_t begin_ns = profile.begin_ns - offsets[mine];
  std::int64_t first_ns = INT64_MAX;
  for (const std::string& text :
       group.all_gather(std::to_string(begin_ns + earliest_ns(profile)), "the beginnings of traces"))
    first_ns = std::min<std::int64_t>(first_ns, std::stoll(text));
  TraceOfRanks trace{.rank = group.rank(), .ranks = group.ranks(), .shift_ns = begin_ns - first_ns};
  if (files == TraceFiles::of_each_rank) return trace;
  std::string events;
  if (mine != 0) TraceWriter(profile, trace, [&](std::string_view piece) { events += piece; }).events();
  trace.others = group.all_gather(events, "traces");
  trace.others.erase(trace.others.begin());
  return trace;
}

void write_trace(const std::filesystem::path& path, const Profile& profile, const TraceOfRanks& ranks) {
  OutputFile file(path);
  TraceWriter writer(profile, ranks, [&](std::string_view piece) { file.write(piece); });
  file.write(fmt::format("{{\n{},\n\"traceEvents\": [\n", writer.facts()));
  writer.events();
  for (const std::string& events : ranks.others) {
    if (!events.empty()) file.write(",\n" + events);
  }
  file.write("\n]}\n");
  file.commit();
}

}  // namespace ridgepoint
