// ridgepoint trace: reads profilers' traces, of PyTorch or of this program, and says where the time goes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/sweep.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "inspect/trace/analysis.h"
#include "inspect/trace/pages/page.h"
#include "interchange/trace/read_trace.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

class TraceCommand : public Command {
 public:
  std::string_view name() const override { return "trace"; }
  std::string_view summary() const override {
    return "read a profiler's trace (PyTorch's, nsys', ours): kernels, classes, steps, idle time, ranks";
  }
  std::string_view examples() const override {
    return "ridgepoint trace trace.json.gz\n"
           "ridgepoint trace trace.json --step 4 --top 30\n"
           "ridgepoint trace rank0.json.gz rank1.json.gz\n"
           "ridgepoint trace before.json --diff after.json\n"
           "ridgepoint trace trace.json --by class --format csv --output classes.csv";
  }
  std::string_view notes() const override {
    return "FILE is what PyTorch's profiler writes (export_chrome_trace, tensorboard_trace_handler), plain or in gzip, "
           "of NVIDIA and AMD; what `ridgepoint profile --trace`, `nsys export --type sqlite` or `nsys stats` writes. "
           "Several files are several ranks. Files of gigabytes are read once. docs/trace.md says how each figure is "
           "found.";
  }

  void add_options(CLI::App& app) override {
    constexpr const char* kGroup = "Trace";
    app.add_option("FILE", files_, "the trace; one file a rank")->type_name("FILE")->group(kGroup);
    app.add_option("--diff", diff_, "compare with this later trace: the first device of each")
        ->type_name("FILE")
        ->group(kGroup);
    step_option_ = app.add_option("--step", step_, "only what this step launched, by the number of its ProfilerStep")
                       ->type_name("N")
                       ->group(kGroup);
    app.add_option("--range", range_, "only what begins in these milliseconds after the first kernel: 10:20")
        ->type_name("MS:MS")
        ->group(kGroup);
    CLI::Option* by =
        app.add_option("--by", by_, "print only this breakdown: kernel, class, scope (modules), step or idle")
            ->type_name("NAME")
            ->group(kGroup);
    offer(*by, {"kernel", "class", "scope", "step", "idle"}, Takes::one);
    app.add_option("--classes", classes_,
                   "a file of more rules for the class of a kernel, one a line: attention my_fused_*_fwd")
        ->type_name("FILE")
        ->group(kGroup);
    app.add_option("--depth", view_.depth, "levels of modules in the breakdown by scope [3]")
        ->type_name("N")
        ->group(kGroup);
    app.add_option("--top", top_, "rows in the table of kernels; 0 shows all [15]")->type_name("N")->group(kGroup);
    output_options_.add_to(app);
  }

  int run() override {
    require(!files_.empty(), "no file is given: ridgepoint trace FILE");
    require(top_ >= 0, fmt::format("--top: {} is too small; the least is 0", top_));
    require(view_.depth >= 1, fmt::format("--depth: {} is too small; the least is 1", view_.depth));
    require(diff_.empty() || files_.size() == 1, "--diff compares two traces; give one FILE beside it");
    require(diff_.empty() || by_.empty(),
            "--by prints one breakdown of a trace; --diff prints its own: give one of both");
    output_options_.check();
    view_.top = static_cast<std::size_t>(top_);
    if (!by_.empty()) view_.only = parse_option("--by", by_, tables::trace_breakdown_from_name);
    if (!diff_.empty()) files_.push_back(diff_);
    const std::vector<TraceLane> lanes = analyse();
    write(output_options_, [&](Format format, std::size_t) {
      return diff_.empty() ? tables::trace_page(lanes, view_, format)
                           : tables::trace_difference_page(lanes.front(), lanes[last_file_begin_], view_.top, format);
    });
    return kExitOk;
  }

 private:
  std::vector<TraceLane> analyse() {
    const KernelRules rules = classes_.empty() ? KernelRules() : KernelRules::with_file(classes_);
    const TraceSelection selection = {.step = step_option_->count() > 0 ? std::optional(step_) : std::nullopt,
                                      .range_ns = parsed_range()};
    std::vector<TraceLane> lanes;
    Progress progress(std::vector<double>(files_.size(), 1));
    for (std::size_t file = 0; file < files_.size(); ++file) {
      progress.start_row(file, files_[file]);
      last_file_begin_ = lanes.size();
      Trace trace = read_trace(files_[file], [&](double share) {
        stop_if_interrupted();
        constexpr double kShareOfReading = 0.8;
        progress.update("reading", kShareOfReading * share);
      });
      for (TraceLane& lane : analyse_trace(std::move(trace), rules, selection, stop_if_interrupted))
        lanes.push_back(std::move(lane));
    }
    return lanes;
  }

  std::optional<std::pair<std::int64_t, std::int64_t>> parsed_range() const {
    if (range_.empty()) return std::nullopt;
    constexpr double kNsOfMs = 1e6, kMostMs = 1e12;
    double begin_ms = 0, end_ms = 0;
    const char* const end = range_.data() + range_.size();
    const auto first = std::from_chars(range_.data(), end, begin_ms);
    const bool has_colon = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
    const auto second = has_colon ? std::from_chars(first.ptr + 1, end, end_ms) : first;
    require(has_colon && second.ec == std::errc() && second.ptr == end && begin_ms >= 0 && end_ms > begin_ms &&
                end_ms <= kMostMs,
            fmt::format("--range: '{}' is no range of milliseconds; write it as 10:20", range_));
    return std::pair(std::llround(begin_ms * kNsOfMs), std::llround(end_ms * kNsOfMs));
  }

  std::vector<std::string> files_;
  std::string diff_, by_, classes_, range_;
  std::int64_t step_ = 0, top_ = 15;
  std::size_t last_file_begin_ = 0;  // among the devices of all files
  const CLI::Option* step_option_ = nullptr;
  tables::TraceViewOptions view_;
  OutputOptions output_options_;
};

}  // namespace

std::unique_ptr<Command> make_trace() { return std::make_unique<TraceCommand>(); }

}  // namespace ridgepoint::cli
