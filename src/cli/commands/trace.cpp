// ridgepoint trace: reads profilers' traces, of PyTorch or of this program, and says where the time goes.

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/messages.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/run_rows.h"
#include "core/text/throw_error.h"
#include "inspect/profile/profile.h"
#include "inspect/trace/analysis.h"
#include "inspect/trace/memory.h"
#include "inspect/trace/pages/page.h"
#include "interchange/snapshot/reader/read_snapshot.h"
#include "interchange/trace/read_trace.h"
#include "predict/cards/datasheet.h"

namespace ridgepoint::cli {
namespace {

class TraceCommand : public Command {
 public:
  TraceCommand() { run_options_.set_default("--device", "null"); }

  std::string_view name() const override { return "trace"; }
  std::string_view summary() const override {
    return "read a profiler's trace (PyTorch's, nsys', ours): kernels, classes, steps, idle time, ranks";
  }
  std::string_view examples() const override {
    return "ridgepoint trace trace.json.gz\n"
           "ridgepoint trace trace.json --step 4 --top 30\n"
           "ridgepoint trace rank0.json.gz rank1.json.gz\n"
           "ridgepoint trace before.json --diff after.json\n"
           "ridgepoint trace trace.json --memory snapshot.pickle\n"
           "ridgepoint trace trace.json --model small --dtype bf16 --compile full\n"
           "ridgepoint trace trace.json --model small --dtype bf16 --compile full --device cuda\n"
           "ridgepoint trace trace.json --by class --format csv --output classes.csv";
  }
  std::string_view notes() const override {
    return "FILE is what PyTorch's profiler writes (export_chrome_trace, tensorboard_trace_handler), plain or in gzip, "
           "of NVIDIA and AMD; what `ridgepoint profile --trace`, `nsys export --type sqlite` or `nsys stats` writes. "
           "Several files are several ranks. Files of gigabytes are read once. With a model, or any other setting of a "
           "run, the trace stands beside a run of this engine with these settings: its predicted kernels on the "
           "trace's card, or with --device cuda or cpu those of a run that is profiled now. docs/commands/trace.md "
           "says how each figure is found.";
  }

  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Trace");
    group.add("FILE", files_, "FILE", "the trace; one file a rank");
    group.add("--diff", diff_, "FILE", "compare with this later trace: the first device of each");
    group.add("--memory", memory_, "FILE",
              "a memory snapshot of the same steps (torch.cuda.memory._dump_snapshot): levels of each step and phase, "
              "and what ran at the peak");
    step_option_ = group.add("--step", step_, "N", "only what this step launched, by the number of its ProfilerStep");
    group.add("--range", range_, "MS:MS", "only what begins in these milliseconds after the first kernel: 10:20");
    group.add("--by", by_, "NAME", "print only this breakdown: kernel, class, scope (modules), step or idle",
              {"kernel", "class", "scope", "step", "idle"}, Takes::one);
    group.add("--classes", classes_, "FILE",
              "a file of more rules for the class of a kernel, one a line: attention my_fused_*_fwd");
    group.add("--depth", view_.depth, "N", "levels of modules in the breakdown by scope [3]");
    group.add("--top", top_, "N", "rows in the table of kernels; 0 shows all [15]");
    run_options_.add_to(app);
    output_options_.add_to(app);
  }

  int run() override {
    require(!files_.empty(), "no file is given: ridgepoint trace FILE");
    require(top_ >= 0, "--top: {} is too small; the least is 0", top_);
    require(view_.depth >= 1, "--depth: {} is too small; the least is 1", view_.depth);
    require(diff_.empty() || files_.size() == 1, "--diff compares two traces; give one FILE beside it");
    require(diff_.empty() || by_.empty(),
            "--by prints one breakdown of a trace; --diff prints its own: give one of both");
    check_companions();
    output_options_.check();
    view_.top = static_cast<std::size_t>(top_);
    if (!by_.empty()) view_.only = parse_option("--by", by_, tables::trace_breakdown_from_name);
    if (!diff_.empty()) files_.push_back(diff_);
    std::vector<TraceLane> lanes = analyse();
    if (!memory_.empty()) put_memory_beside(lanes);
    const bool has_two = !diff_.empty() || has_own_run();
    if (has_own_run()) {
      last_file_begin_ = lanes.size();
      lanes.push_back(own_run(lanes.front()));
    }
    const tables::ComparedNames names =
        has_own_run() ? tables::ComparedNames{"trace", "ours"} : tables::ComparedNames{};
    write(output_options_, [&](Format format, std::size_t) {
      return has_two ? tables::trace_difference_page(lanes.front(), lanes[last_file_begin_], names, view_.top, format)
                     : tables::trace_page(lanes, view_, format);
    });
    return kExitOk;
  }

 private:
  // What stands beside the trace.
  bool has_own_run() const { return !run_options_.given().empty(); }

  void check_companions() const {
    const auto alone = [&](std::string_view what) {
      require(files_.size() == 1, "{} stands beside one trace; give one FILE", what);
      require(diff_.empty(), "--diff already compares the trace; leave it or {} out", what);
    };
    if (!memory_.empty()) alone("--memory");
    if (!has_own_run()) return;
    const std::string setting = run_options_.given().front();
    alone(setting);
    require(memory_.empty(), "--memory shows the trace itself, {} compares it; leave one out", setting);
    require(by_.empty(), "--by prints one breakdown of a trace, {} compares it; leave one out", setting);
  }

  void put_memory_beside(std::vector<TraceLane>& lanes) const {
    Progress progress(std::vector<double>{1});
    progress.start_row(0, memory_);
    const Snapshot snapshot = read_snapshot(memory_, [&](double share) {
      stop_if_interrupted();
      progress.update("reading", share);
    });
    add_memory(lanes, snapshot, memory_, stop_if_interrupted);
  }

  // Predicted on the card of the trace, unless a device is named that runs.
  TraceLane own_run(const TraceLane& trace) {
    if (!run_options_.given("--card") && !run_options_.given("--device")) {
      const Datasheet* sheet = find_datasheet(trace.card_name());
      require(
          sheet != nullptr,
          "the trace is of '{}', which is no known card; name one with --card, or run here with --device cuda or cpu",
          trace.device);
      run_options_.set_default("--card", std::string(sheet->card));
    }
    RunConfig config = run_options_.single();
    config.profiled_steps = kProfiledSteps;
    CeilingCache ceilings;
    const std::optional<Profile> profile = run_row(outline(config), [&](Progress& progress) {
      return config.device == "null" ? forecast_profile(config, shown_on(progress))
                                     : measure_profile(config, ceilings, shown_on(progress));
    });
    require_complete(profile ? 1 : 0, 1, output_options_.path, "profiles");
    if (profile->run.status != RunStatus::ok) throw Error(profile->run.error.message);
    if (!profile->has_kernels()) throw_error("no kernels were recorded: {}", profile->problem);
    if (!profile->capture_note.empty()) print_error(profile->capture_note);
    TraceLane lane = lane_of_profile(*profile);
    tables::name_own_run(lane, *profile);
    return lane;
  }

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
    constexpr std::int64_t kNsOfMs = 1'000'000;
    if (range_.empty()) return std::nullopt;
    return parse_option("--range", range_, [](std::string_view text) { return parse_range(text, kNsOfMs); });
  }

  static constexpr std::int64_t kProfiledSteps = 3;
  static constexpr std::string_view kSettings =
      "device threads card workload model config-override layers d-model d-ff heads vocab context batch dtype compile "
      "allocator attention checkpoint segment loss-chunk warmup steps mode optimizer master-weights accumulate";
  RunOptions run_options_{kSettings};
  std::vector<std::string> files_;
  std::string diff_, by_, classes_, range_, memory_;
  std::int64_t step_ = 0, top_ = 15;
  std::size_t last_file_begin_ = 0;  // among the devices of all files
  const CLI::Option* step_option_ = nullptr;
  tables::TraceViewOptions view_;
  OutputOptions output_options_;
};

}  // namespace

std::unique_ptr<Command> make_trace() { return std::make_unique<TraceCommand>(); }

}  // namespace ridgepoint::cli
