#include "inspect/attention/limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "predict/forecast.h"
#include "ridgepoint/core/error.h"
#include "run/session/plan_run.h"
#include "run/session/run_record.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

constexpr auto kConfirmationNames = enum_names<Confirmation>("not run", "yes", "no");

// The most repeats of the search because libraries took more memory.
constexpr int kMostSearches = 3;
// Long enough to load the kernels of long sequences, short enough for every device.
constexpr std::int64_t kShortSequence = 1024;
// The most operations of forward + backward that take under half a minute: on two cores, on a GPU, in plain loops.
constexpr double kMostCpuFlops = 4e12;
constexpr double kMostCardFlops = 5e14;
constexpr double kMostReferenceFlops = 1e9;

double most_flops(std::string_view kind) {
  if (kind == "cuda") return kMostCardFlops;
  return kind == "reference" ? kMostReferenceFlops : kMostCpuFlops;
}

class Search {
 public:
  Search(const AttentionConfig& config, std::int64_t granularity, const LimitWatcher& watch, AttentionLimit& limit)
      : config_(config),
        granularity_(granularity),
        watch_(watch),
        limit_(limit),
        options_{.compile = run_config(config).compile, .allocator = config.allocator} {
    options_.compile.after_pass = [this](const PassResult& pass, const Graph& graph) {
      if (pass.name == last_training_pass()) limit_.run.attention_fallback = attention_fallback(graph, *device_);
    };
  }

  void run() {
    device_ = open_device(config_.device, config_.device_options);
    describe_device(limit_.run, *device_);
    if (!limit_.run.device.total_memory_bytes) {
      throw Error("a null device without a memory limit is never full; give --memory-limit 20GiB", ErrorKind::usage);
    }
    available_bytes_ = available_memory_bytes(*device_);
    // Libraries allocate memory in the first run; only then is the free memory of the driver final.
    if (device_->facts().memory_bytes) runs(kShortSequence);
    for (int search = 0; search < kMostSearches; ++search) {
      memory_bytes_ = available_bytes_;
      clear_figures();
      limit_.memory_bytes = static_cast<std::int64_t>(memory_bytes_);
      const std::int64_t longest =
          largest_that_fits([this](std::int64_t sequence) { return is_planned_to_fit(sequence); }, granularity_,
                            std::numeric_limits<std::int64_t>::max());
      limit_.problem = of_length(longest);
      if (overflows_) {
        limit_.remark = "longer sequences fit, and their operations are more than 64 bits count";
        break;
      }
      confirm(longest);
      if (limit_.confirmation != Confirmation::differs || available_bytes_ == memory_bytes_) break;
    }
    add_remark_on_other_memory();
  }

 private:
  void enter(const std::string& what) const {
    if (watch_ && !watch_(what)) stop_run();
  }

  AttentionProblem of_length(std::int64_t sequence) const {
    AttentionProblem problem = config_.problem;
    problem.queries = problem.keys = sequence;
    return problem;
  }

  // Clears the figures of an earlier search, which had more memory.
  void clear_figures() {
    limit_.peak_allocated_bytes = limit_.peak_reserved_bytes = 0;
    limit_.requested_bytes = limit_.segment_bytes = limit_.free_bytes = 0;
    limit_.confirmation = Confirmation::not_run;
  }

  void add_remark_on_other_memory() {
    const std::size_t total_bytes = device_->total_memory_bytes();
    if (memory_bytes_ >= total_bytes) return;
    const std::string held = fmt::format("libraries and other processes hold {} of {}",
                                         format_bytes(total_bytes - memory_bytes_), format_bytes(total_bytes));
    limit_.remark += (limit_.remark.empty() ? "" : "; ") + held;
  }

  // Keeps the figures of the last sequence that fits, and of the last one that does not fit.
  bool is_planned_to_fit(std::int64_t sequence) {
    enter(fmt::format("planning sequence {}", sequence));
    try {
      const ProgramPlan plan(build_attention_problem(of_length(sequence)), device_, options_);
      const MemoryUse use = forecast_memory(plan, {.memory_bytes = memory_bytes_}).use;
      limit_.peak_allocated_bytes = static_cast<std::int64_t>(use.peak_allocated_bytes);
      limit_.peak_reserved_bytes = static_cast<std::int64_t>(use.peak_reserved_bytes);
      return true;
    } catch (const OutOfMemory& error) {
      const MemoryShortage& shortage = error.shortage();
      limit_.requested_bytes = static_cast<std::int64_t>(shortage.requested_bytes);
      limit_.segment_bytes = static_cast<std::int64_t>(shortage.segment_bytes);
      limit_.free_bytes = static_cast<std::int64_t>(shortage.free_bytes);
      return false;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage || limit_.peak_allocated_bytes == 0) throw;
      overflows_ = true;
      return false;
    }
  }

  void confirm(std::int64_t longest) {
    limit_.remark = why_not_run(longest + granularity_);
    if (!limit_.remark.empty()) return;
    const bool first = longest == 0 || runs(longest);
    const bool second = runs(longest + granularity_);
    limit_.confirmation = first && !second ? Confirmation::agrees : Confirmation::differs;
    if (!first) limit_.remark = fmt::format("sequence {} did not fit", longest);
    if (second) limit_.remark = fmt::format("sequence {} fits too", longest + granularity_);
  }

  std::string why_not_run(std::int64_t sequence) const {
    if (device_->kind() == "null") return "the null device runs nothing";
    if (device_->kind() == "cpu" && !config_.device_options.memory_limit_bytes) {
      return "would fill the memory of this machine; give --memory-limit";
    }
    const AttentionProblem problem = of_length(sequence);
    const bool is_long = forward_flops(problem) + backward_flops(problem) > most_flops(device_->kind());
    return is_long ? "would take over half a minute" : "";
  }

  bool runs(std::int64_t sequence) {
    enter(fmt::format("running sequence {}", sequence));
    std::optional<Program> program;
    bool fits = true;
    try {
      program.emplace(build_attention_problem(of_length(sequence)), device_, options_);
      program->run();
      program->synchronize();
    } catch (const Error& error) {  // OutOfMemory, or a kernel without memory
      if (error.kind() != ErrorKind::out_of_memory) throw;
      fits = false;
    }
    if (program) note_available(program->memory_use());
    return fits;
  }

  // The memory that a program could use now that its kernels and libraries are loaded.
  void note_available(const MemoryUse& taken) {
    const std::optional<std::size_t> free_bytes = device_->free_memory_bytes();
    if (free_bytes) available_bytes_ = std::min(device_->total_memory_bytes(), *free_bytes + taken.reserved_bytes);
  }

  const AttentionConfig& config_;
  std::int64_t granularity_;
  const LimitWatcher& watch_;
  AttentionLimit& limit_;
  ProgramOptions options_;
  std::shared_ptr<Device> device_;
  std::size_t available_bytes_ = 0;
  std::size_t memory_bytes_ = 0;  // of this search
  bool overflows_ = false;        // what the search ended at
};

}  // namespace

std::string_view name(Confirmation confirmation) { return kConfirmationNames[confirmation]; }

std::optional<AttentionLimit> find_attention_limit(const AttentionConfig& config, std::int64_t granularity,
                                                   const LimitWatcher& watch) {
  AttentionLimit limit;
  limit.problem = config.problem;
  limit.run = describe_run(config);
  const auto search = [&] { record_outcome(limit.run, [&] { Search(config, granularity, watch, limit).run(); }); };
  if (is_stopped(search)) return std::nullopt;
  return limit;
}

}  // namespace ridgepoint
