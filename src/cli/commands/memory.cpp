// ridgepoint memory: runs a workload and shows where its memory goes: timeline, peaks, largest allocations.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/rank_options.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/ranks/ranks.h"
#include "cli/terminal/run_rows.h"
#include "cli/terminal/width.h"
#include "core/files/file.h"
#include "inspect/memory/pages/page.h"
#include "inspect/memory/run/measure_memory.h"
#include "interchange/snapshot/write_snapshot.h"
#include "ridgepoint/core/error.h"
#include "run/session/fit_into.h"
#include "run/session/ranks.h"

namespace ridgepoint::cli {
namespace {

class MemoryCommand : public Command {
 public:
  MemoryCommand() {
    run_options_.set_default("--warmup", "1");
    run_options_.set_default("--steps", "3");
  }

  std::string_view name() const override { return "memory"; }
  std::string_view summary() const override {
    return "show where memory goes: timeline, peaks by phase, largest allocations";
  }
  std::string_view examples() const override {
    return "ridgepoint memory --model small --mode step\n"
           "ridgepoint memory --model 2.7b --device null --dtype bf16 --axis events\n"
           "ridgepoint memory --model small --dtype bf16 --mode training_forward --steps 10\n"
           "ridgepoint memory --model 2.7b --device null --context 128,256,512 --mode training_forward,step --dtype "
           "fp32,bf16\n"
           "ridgepoint memory --model tiny --parallel data=2 --shard none,optimizer,gradients --ranks 2\n"
           "ridgepoint memory --model small --mode step --snapshot small.pickle --timeline small.svg,small.csv";
  }
  std::string_view notes() const override {
    return "One configuration is shown in full, several as a table of their peaks. The first iterations (--warmup) do "
           "not count. Runs are not captured, but allocate as runs without a history do. On a GPU the times are those "
           "of the host, which allocates a block when it launches a kernel. The null device walks the plan without "
           "computing, so any model fits, and there are no times. With several ranks the page shows rank 0, and a "
           "table has the memory of each rank; each rank writes its own files, with the rank in their names. "
           "pytorch.org/memory_viz and `ridgepoint snapshot` open the file of --snapshot. If the run does not "
           "fit, the files have the history up to the request that failed.";
  }

  void add_options(CLI::App& app) override {
    run_options_.add_to(app);
    rank_options_.add_to(app);
    run_options_.add_skip_to(app);
    RunOptions::add_run_anyway(app, run_anyway_);
    const OptionGroup group(app, "Memory");
    group.add("--axis", axis_, "NAME",
              "the axis of the timeline: time, or events as pytorch.org/memory_viz puts them side by side [time; "
              "events on the null device]",
              {"time", "events"}, Takes::one);
    group.add("--top", top_, "N", "rows in the tables of modules and allocations; 0 shows all [10]");
    group.add("--snapshot", snapshot_, "FILE", "write a memory snapshot: a pickle, or JSON if the name ends in .json");
    group.add("--timeline", timelines_, "FILES",
              "write the timeline: a picture (.svg), or a line for every event (.csv); a list writes both");
    output_options_.add_to(app);
    output_options_.add_columns_to(app, Experiment::memory);
  }

  int run() override {
    const std::vector<RunConfig> configs = checked_configs();
    check_files(configs.size());
    const std::vector<std::string> columns = output_options_.resolved_columns();
    options_.columns = columns;
    const bool streams = output_options_.resolved_format() == Format::jsonl;
    PageWriter writer(
        output_options_,
        [this](Format format, std::size_t first) {
          return tables::memory_page(std::span(runs_).subspan(first), options_, format);
        },
        streams ? PageWriter::Items::independent : PageWriter::Items::one_table);
    run_all(configs, writer);
    writer.finish();
    require_complete(runs_.size(), configs.size(), output_options_.path);
    std::vector<Record> records;
    for (const MemoryRun& run : runs_) records.push_back(run.run);
    if (const std::string problem = problem_of_ranks(joined_ranks().get(), files_problem_, "problems with files");
        !problem.empty()) {
      if (is_first_rank()) print_error(problem);
      return kExitFailure;
    }
    return exit_code(records);
  }

 private:
  std::vector<RunConfig> checked_configs() {
    require(top_ >= 0, "--top: {} is too small; the least is 0", top_);
    options_.top = static_cast<std::size_t>(top_);
    if (!axis_.empty()) options_.axis = parse_option("--axis", axis_, timeline_axis_from_name);
    options_.width = page_width();
    std::vector<RunConfig> configs = run_options_.expand();
    for (RunConfig& config : configs) {
      require(config.steps >= 1, "--steps: at least one iteration must count");
      require(options_.axis != TimelineAxis::time || config.device.substr(0, 4) != "null",
              "--axis: the null device computes nothing, so it has no times; use --axis events");
      config.run_anyway = run_anyway_;
      config.profiled_steps = 1;
    }
    output_options_.check();
    rank_options_.place(configs);
    return configs;
  }

  void check_files(std::size_t configs) {
    if (!timelines_.empty()) timeline_files_ = parse_option("--timeline", timelines_, split_list);
    require(configs == 1 || (snapshot_.empty() && timeline_files_.empty()),
            "--snapshot and --timeline write one configuration; the options give {}", configs);
    for (const std::string& path : timeline_files_) {
      const std::string extension = std::filesystem::path(path).extension();
      require(extension == ".svg" || extension == ".csv", "--timeline: '{}' ends neither in .svg nor in .csv", path);
      check_writable(path_of_rank(path));
    }
    if (!snapshot_.empty()) check_writable(path_of_rank(snapshot_));
  }

  void run_all(const std::vector<RunConfig>& configs, PageWriter& writer) {
    std::vector<RowOutline> rows;
    for (const RunConfig& config : configs) rows.push_back(outline(config));
    run_rows(rows, [&](std::size_t row, Progress& progress) {
      std::optional<MemoryRun> run = measured(configs[row], shown_on(progress));
      progress.clear();
      if (!run) return false;
      write_files(*run);
      if (configs.size() > 1) run->forget_events();  // only a single run shows them
      runs_.push_back(std::move(*run));
      writer.item_added();
      return true;
    });
  }

  static std::optional<MemoryRun> measured(const RunConfig& config, const StepWatcher& watch) {
    std::optional<FittedRun> fitted = fit_into(config, Experiment::memory, {}, watch);
    if (!fitted || !fitted->failure) return fitted ? measure_memory(fitted->config, watch) : std::nullopt;
    MemoryRun failed;
    failed.run = std::move(*fitted->failure);
    return failed;
  }

  // A file that cannot be written is reported at the end: the tables are printed all the same.
  void write_files(const MemoryRun& run) {
    std::vector<std::string> paths = timeline_files_;
    if (!snapshot_.empty()) paths.insert(paths.begin(), snapshot_);
    if (paths.empty()) return;
    if (!run.has_events()) {
      files_problem_ = fmt::format("{} was not written, because nothing was recorded: {}", fmt::join(paths, ", "),
                                   run.run.error.message);
      return;
    }
    try {
      for (const std::string& path : paths) write_file_of(run, path);
    } catch (const Error& error) {
      files_problem_ = error.what();
      return;
    }
    if (!run.has_figures())
      print_warning(fmt::format("{}: the history up to the request that failed", fmt::join(paths, ", ")));
  }

  void write_file_of(const MemoryRun& run, const std::string& path) const {
    if (path == snapshot_) return write_snapshot(path_of_rank(path), run.snapshot);
    const bool is_picture = std::filesystem::path(path).extension() == ".svg";
    write_file(path_of_rank(path),
               is_picture ? tables::timeline_svg(run, tables::axis_of(run, options_)) : tables::timeline_csv(run));
  }

  RunOptions run_options_{std::string(kRunSettings) + " fit-into"};
  RankOptions rank_options_;
  OutputOptions output_options_;
  tables::MemoryViewOptions options_;
  std::string axis_, snapshot_, timelines_, files_problem_;
  std::vector<std::string> timeline_files_;
  std::int64_t top_ = 10;
  bool run_anyway_ = false;
  std::vector<MemoryRun> runs_;
};

}  // namespace

std::unique_ptr<Command> make_memory() { return std::make_unique<MemoryCommand>(); }

}  // namespace ridgepoint::cli
