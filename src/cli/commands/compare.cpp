// ridgepoint compare: whether one configuration, or one record file, is faster than another beyond the noise, and
// whether the losses of two trainings differ.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/output.h"
#include "cli/options/rank_options.h"
#include "cli/options/run_options.h"
#include "cli/terminal/run_rows.h"
#include "core/text/units.h"
#include "inspect/compare/compare_records.h"
#include "inspect/compare/files/record_file.h"
#include "inspect/compare/interleaved.h"
#include "inspect/compare/ratio_table.h"
#include "inspect/compare/training/compare_trainings.h"
#include "inspect/compare/training/training_table.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

// The share of an option's value, 0.03 for "3%". Throws Error (usage), which begins with the flag, without the sign
// and for a share outside least..most.
double parse_share(std::string_view flag, const std::string& text, double least, double most) {
  double percent = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || stop + 1 != end || *stop != '%')
    refuse("{}: '{}' is not a percentage; write it as 3% or 0.5%", flag, text);
  const double share = percent / 100;
  if (!(share >= least && share <= most)) {
    refuse("{}: '{}' is not between {:g}% and {:g}%", flag, text, least * 100, most * 100);
  }
  return share;
}

class Compare : public Command {
 public:
  Compare() {
    run_options_.set_default("--steps", "30");
    run_options_.set_help("--steps", "rounds; each has one timed iteration of each configuration");
  }

  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "say whether a configuration or a record file is faster than another, beyond the noise";
  }
  std::string_view examples() const override {
    return "ridgepoint compare --model small --dtype bf16 --compile off,full\n"
           "ridgepoint compare --model tiny --attention composite,flash --context 1024 --steps 100\n"
           "ridgepoint compare --model tiny --parallel data=2 --shard none,optimizer --ranks 2\n"
           "ridgepoint compare before.jsonl after.jsonl\n"
           "ridgepoint compare before.jsonl after.jsonl --fail-if-slower 3% --fail-if-more-memory 1%\n"
           "ridgepoint compare sweep.jsonl --same-within 0.5%\n"
           "ridgepoint compare runs/a runs/b --fail-if-loss-worse 0.5%\n"
           "ridgepoint compare before.jsonl other.csv --mapping mapping.json --format csv";
  }
  std::string_view notes() const override {
    return "Without FILES, the options name two configurations or more (--compile off,full); the first is the "
           "baseline. All are in memory at once, and their iterations alternate in rounds, so that drift of the "
           "machine is no difference. FILES are records as bench writes them, json or jsonl: rows of the second and "
           "later files are compared with those of the first that have the same configuration; the rows of a single "
           "file with its first row. The ratio is that of the median times, above 1 is slower, and its interval holds "
           "for any distribution of noise. The verdict is faster, slower or same only if the whole interval says so, "
           "and otherwise 'cannot tell'. Files of plan and memory are compared by their peaks, and plans for a card by "
           "their predicted times, which have no noise. Of the steps of a training, which train writes with --output "
           "or into the folder of its checkpoints, the losses are compared, too. Exit code: 0; with --fail-if-slower "
           "3 if a row is slower beyond doubt; with --fail-if-more-memory 5 if the peak of a row is higher; with "
           "--fail-if-loss-worse 6 if a loss is higher beyond doubt; 1 if a run failed or nothing was comparable; 2 "
           "for a wrong command line; 130 after Ctrl-C, which prints the "
           "finished rounds. docs/commands/compare.md explains the figures.";
  }

  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Compare");
    group.add("FILES", files_, "FILE", "record files, or steps of trainings; the first is the baseline")
        ->default_str("none")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    group.add("--same-within", same_within_, "SHARE", "differences up to this are called the same [1%]");
    group.add("--confidence", confidence_, "SHARE", "confidence of the intervals [99%]");
    group.add("--fail-if-slower", fail_if_slower_, "SHARE",
              "exit with 3 if a row is slower than its baseline by more than this beyond doubt");
    group.add("--fail-if-more-memory", fail_if_more_memory_, "SHARE",
              "exit with 5 if the peak of a row is above its baseline's by more than this");
    group.add("--fail-if-loss-worse", fail_if_loss_worse_, "SHARE",
              "of trainings: exit with 6 if a final loss is above its baseline's by more than this beyond doubt");
    group.add("--last", training_.last, "N",
              "of trainings: the steps at the end that make a final loss [a tenth, at least 20]");
    group.add("--to-loss", training_.target_loss, "X",
              "of trainings: the loss that the time is measured to [the higher of the two final ones]");
    group.add("--mapping", mapping_, "FILE",
              "how to read files that are not records, CSV or JSON: a JSON object from our fields to their columns, "
              "{\"time_ms.samples\": \"latency_us * 0.001\", \"device.name\": \"= NVIDIA H200\"}");
    run_options_.add_to(app);
    rank_options_.add_to(app);
    RunOptions::add_run_anyway(app, run_anyway_);
    output_options_.add_to(app);
  }

  int run() override {
    constexpr double kLeastConfidence = 0.5, kMostConfidence = 0.9999, kMostShare = 10;
    options_.same_within = parse_share("--same-within", same_within_, 0, kMostShare);
    options_.confidence = parse_share("--confidence", confidence_, kLeastConfidence, kMostConfidence);
    if (!fail_if_slower_.empty()) time_limit_ = parse_share("--fail-if-slower", fail_if_slower_, 0, kMostShare);
    if (!fail_if_more_memory_.empty())
      memory_limit_ = parse_share("--fail-if-more-memory", fail_if_more_memory_, 0, kMostShare);
    if (!fail_if_loss_worse_.empty())
      loss_limit_ = parse_share("--fail-if-loss-worse", fail_if_loss_worse_, 0, kMostShare);
    require(training_.last >= 0, "--last: it is a number of steps");
    training_.of_times = options_;
    output_options_.check();
    return files_.empty() ? compare_configurations() : compare_files();
  }

 private:
  int compare_files() {
    const std::vector<std::string> given = run_options_.given();
    require(given.empty() && !run_anyway_, "{}: files have their configurations; leave it out, or leave out the files",
            given.empty() ? "--run-anyway" : given.front());
    require(!rank_options_.is_given(), "--ranks: files are read by one process; leave it out");
    std::vector<RecordFile> files;
    for (const std::string& path : files_) {
      files.push_back(read_record_file(path, mapping_));
      for (const std::string& warning : files.back().warnings) print_error(warning);
    }
    const auto is_foreign = [](const RecordFile& file) { return file.known_fields.has_value(); };
    require(mapping_.empty() || std::ranges::any_of(files, is_foreign),
            "--mapping: every file holds records of Ridgepoint, which need none; leave it out");
    if (std::ranges::any_of(files, [](const RecordFile& file) { return !file.history.steps.empty(); }))
      return compare_histories(files);
    require_no_option_of_trainings();
    const RecordComparison comparison = ridgepoint::compare_files(files, options_);
    for (const std::string& warning : comparison.warnings) print_error(warning);
    PageWriter writer(output_options_, page_of(comparison));
    writer.item_added();
    writer.finish();
    return judged(comparison).value_or(kExitOk);
  }

  void require_no_option_of_trainings() const {
    const char* given = loss_limit_ ? "--fail-if-loss-worse" : training_.last > 0 ? "--last" : "--to-loss";
    require(!loss_limit_ && training_.last == 0 && !training_.target_loss,
            "{} is for the steps of trainings, which ridgepoint train writes; leave it out", given);
  }

  int compare_histories(const std::vector<RecordFile>& files) {
    const TrainingComparison comparison = compare_trainings(files, training_);
    for (const std::string& warning : comparison.warnings) print_warning(warning);
    PageWriter writer(output_options_,
                      [&](Format format, std::size_t) { return tables::training_page(comparison, format); });
    writer.item_added();
    writer.finish();
    return judged(comparison);
  }

  // The worst of the gates, each of which says what it found.
  int judged(const TrainingComparison& comparison) const {
    bool is_slower = false, needs_more = false, is_worse = false;
    std::size_t without_interval = 0;
    const auto found = [](const ComparedTraining& row, std::string_view what, const std::string& limit) {
      print_error(fmt::format("'{}' {} than its baseline by more than {}", row.file, what, limit));
      return true;
    };
    for (const ComparedTraining& row : comparison.rows) {
      if (time_limit_ && row.time && is_slower_by(*row.time, *time_limit_))
        is_slower = found(row, "is slower", fail_if_slower_);
      if (memory_limit_ && row.memory_ratio().value_or(0) > 1 + *memory_limit_)
        needs_more = found(row, "needs more memory", fail_if_more_memory_);
      if (row.verdict == LossVerdict::cannot_tell) ++without_interval;
      if (loss_limit_ && row.has_loss_worse_by(*loss_limit_))
        is_worse = found(row, "has a higher loss", fail_if_loss_worse_);
    }
    if (loss_limit_) say_undecided("--fail-if-loss-worse", without_interval, "an interval");
    if (is_slower) return kExitSlower;
    if (needs_more) return kExitMoreMemory;
    return is_worse ? kExitWorseLoss : kExitOk;
  }

  int compare_configurations() {
    require_no_option_of_trainings();
    require(mapping_.empty(), "--mapping is for files of other programs; name them: ridgepoint compare A.jsonl B.csv");
    std::vector<RunConfig> configs = checked_configs();
    rank_options_.place(configs);
    RecordComparison comparison;
    PageWriter writer(output_options_, [&](Format format, std::size_t) { return ratio_page(comparison, format); });
    const InterleavedRun run = measure(configs);
    const std::int64_t rounds = configs.front().steps;
    if (run.rounds > 0) {
      comparison = compare_runs(run.records, options_);
      writer.item_added();
      writer.finish();
    }
    require_complete(static_cast<std::size_t>(run.rounds), static_cast<std::size_t>(rounds), output_options_.path,
                     "rounds");
    return judged(comparison).value_or(exit_code(run.records));
  }

  std::vector<RunConfig> checked_configs() const {
    std::vector<RunConfig> configs = run_options_.expand();
    require(configs.size() > 1,
            "compare needs two configurations or more, or record files: --compile off,full, or A.jsonl B.jsonl");
    for (RunConfig& config : configs) {
      const RunConfig& first = configs.front();
      require(config.device == first.device,
              "--device: times of different devices are not comparable: {} and {}; bench shows both", first.device,
              config.device);
      require(config.device != "null", "--device null computes nothing to compare; plan predicts times and memory");
      require(config.device_options.threads == first.device_options.threads,
              "--threads: configurations that run side by side share their threads; run bench with each number, and "
              "compare the files");
      require(config.steps == first.steps, "--steps: all configurations run the same rounds; give one number");
      config.run_anyway = run_anyway_;
    }
    return configs;
  }

  static InterleavedRun measure(const std::vector<RunConfig>& configs) {
    Progress progress({1});
    progress.start_row(0, fmt::format("{} configurations, {}", configs.size(), outline(configs.front()).description));
    InterleavedRun run = measure_interleaved(configs, shown_on(progress));
    progress.clear();
    return run;
  }

  static PageWriter::MakePage page_of(const RecordComparison& comparison) {
    return [&comparison](Format format, std::size_t) { return ratio_page(comparison, format); };
  }

  // With --fail-if-slower and --fail-if-more-memory: says which rows are worse. Empty if none is.
  std::optional<int> judged(const RecordComparison& comparison) const {
    const bool is_slower = time_limit_ && is_any_slower(comparison);
    const bool needs_more = memory_limit_ && needs_any_more(comparison);
    if (is_slower) return kExitSlower;
    if (needs_more) return kExitMoreMemory;
    return std::nullopt;
  }

  static void say_undecided(std::string_view flag, std::size_t rows, std::string_view missing) {
    if (rows == 0) return;
    print_error(fmt::format("{} says nothing about {} row{} without {}", flag, rows, rows == 1 ? "" : "s", missing));
  }

  bool is_any_slower(const RecordComparison& comparison) const {
    bool found = false;
    std::size_t undecided = 0;
    for (const ComparedRow& row : comparison.rows) {
      if (!row.ratio || !row.ratio->interval) ++undecided;
      if (!row.ratio || !is_slower_by(*row.ratio, *time_limit_)) continue;
      found = true;
      print_error(fmt::format("{} is slower than its baseline by more than {}: the ratio is {}",
                              tables::row_name(comparison, row), fail_if_slower_, tables::ratio_text(row)));
    }
    say_undecided("--fail-if-slower", undecided, "an interval");
    return found;
  }

  // A row that runs out of memory where its baseline does not needs more, however much that is.
  bool needs_any_more(const RecordComparison& comparison) const {
    bool needs_any = false;
    std::size_t undecided = 0;
    for (const ComparedRow& row : comparison.rows) {
      const bool ran_out = row.record.status == RunStatus::oom && row.baseline.status == RunStatus::ok;
      if (!ran_out && !row.memory_ratio) ++undecided;
      if (!ran_out && row.memory_ratio.value_or(0) <= 1 + *memory_limit_) continue;
      needs_any = true;
      const std::string name = tables::row_name(comparison, row);
      const std::string before =
          format_bytes(static_cast<std::uint64_t>(row.baseline.memory_bytes.peak_allocated.value_or(0)));
      if (ran_out) {
        print_error(fmt::format("{} runs out of memory, and its baseline takes {}", name, before));
        continue;
      }
      print_error(fmt::format("{} needs more memory than its baseline by more than {}: {} instead of {}, {:.4f} times",
                              name, fail_if_more_memory_,
                              format_bytes(static_cast<std::uint64_t>(*row.record.memory_bytes.peak_allocated)), before,
                              *row.memory_ratio));
    }
    say_undecided("--fail-if-more-memory", undecided, "a peak");
    return needs_any;
  }

  RunOptions run_options_;
  RankOptions rank_options_;
  OutputOptions output_options_;
  std::vector<std::string> files_;
  std::string mapping_, same_within_ = "1%", confidence_ = "99%", fail_if_slower_, fail_if_more_memory_,
                        fail_if_loss_worse_;
  CompareOptions options_;
  TrainingCompareOptions training_;
  std::optional<double> time_limit_, memory_limit_, loss_limit_;
  bool run_anyway_ = false;
};

}  // namespace

std::unique_ptr<Command> make_compare() { return std::make_unique<Compare>(); }

}  // namespace ridgepoint::cli
