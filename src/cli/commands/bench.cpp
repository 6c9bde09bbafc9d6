// ridgepoint bench: times every configuration of a sweep, and peers beside it. A row is written before the next one
// begins; a row that fails reports its error, and the sweep goes on.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/rank_options.h"
#include "cli/options/run_options.h"
#include "cli/options/sweep.h"
#include "cli/options/until.h"
#include "cli/options/weights_file.h"
#include "cli/ranks/ranks.h"
#include "cli/terminal/host.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/run_rows.h"
#include "core/files/temporary_folder.h"
#include "core/processes/child_process.h"
#include "inspect/profile/profile.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "run/peers/peer_benchmark.h"
#include "run/session/fit_into.h"
#include "run/session/steps/step_benchmark.h"

namespace ridgepoint::cli {
namespace {

// On several ranks, after the timed ones.
constexpr std::int64_t kProfiledSteps = 2;

// --first-call, --cold and --cold-cache: every row of a sweep is run in a process of its own, which measures where the
// time of its first call goes. With --first-call the row is that call alone.
class FirstCallOptions {
 public:
  void add_to(CLI::App& app);
  // Whether each row has a process of its own.
  bool is_given() const { return is_alone_ || is_cold_; }
  // --first-call: nothing else is timed.
  bool is_alone() const { return is_alone_; }
  bool is_cold() const { return is_cold_; }
  // The row that this process was started to measure, from 0.
  std::optional<std::size_t> own_row() const { return row_ > 0 ? std::optional<std::size_t>(row_ - 1) : std::nullopt; }
  // Throws Error (usage) if an option has no effect with these.
  void check(const RunOptions& run_options) const;

  // Runs row `row` of the sweep `arguments` (the options of the rows, without those of the output) in a new process of
  // this program and returns the record that the process prints. A process that ends without one is a row of status
  // error. Throws what the watcher's end of the run throws.
  Record measure(const std::vector<std::string>& arguments, std::size_t row, const RunConfig& config,
                 const StepWatcher& watch) const;

 private:
  bool is_alone_ = false, is_cold_ = false, cold_cache_ = false;
  std::size_t row_ = 0;  // from 1; 0: this process was not started for a row
};

void FirstCallOptions::add_to(CLI::App& app) {
  const OptionGroup group(app, "First call");
  group.add_flag("--cold", is_cold_,
                 "time each row in a new process, so that no row gains from an earlier one, and its first call apart");
  group.add_flag(
      "--first-call", is_alone_,
      "time the first run instead, each row in a new process: where the time from the start to its end goes");
  add_flag_of(app, "cold-cache", cold_cache_);
  // A new process is started with it; the empty group keeps it out of the help.
  app.add_option("--first-call-row", row_, "")->group("");
}

void FirstCallOptions::check(const RunOptions& run_options) const {
  if (is_given()) require_own_process(is_cold_ ? "--cold" : "--first-call");
  require(is_given() || !cold_cache_, "--cold-cache needs --cold or --first-call");
  require(!is_alone_ || !is_cold_, "--first-call times the first call alone, --cold also later ones; give one of them");
  if (!is_alone_) return;
  for (const char* flag : {"--warmup", "--steps"}) {
    require(!run_options.given(flag), "{} has no effect with --first-call, which runs once; leave it out", flag);
  }
}

Record FirstCallOptions::measure(const std::vector<std::string>& arguments, std::size_t row, const RunConfig& config,
                                 const StepWatcher& watch) const {
  std::vector<std::string> words = {"/proc/self/exe", "bench"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  if (is_cold_) words.emplace_back("--cold");
  words.insert(words.end(), {"--first-call-row", std::to_string(row + 1)});
  std::optional<TemporaryFolder> cache;
  ChildProcess::Variables variables;
  if (cold_cache_) {
    cache.emplace();
    // The second is the driver's cache of code that it compiles from PTX.
    variables = {{"XDG_CACHE_HOME", cache->path().string()}, {"CUDA_CACHE_PATH", (*cache / "driver").string()}};
  }
  ChildProcess process(words, variables);
  const std::optional<std::string> line = process.read_line([&] {
    if (watch && !watch({StepProgress::Stage::initialising})) stop_run();
  });
  const int exit_code = process.wait();
  if (!line) {
    Record record = describe_run(config, Experiment::bench);
    record.status = RunStatus::error;
    record.error.message = fmt::format("the process ended with exit code {}: {}", exit_code, process.last_error_line());
    return record;
  }
  Record record = record_from_json(*line);
  record.training_step->cold_cache = cold_cache_;
  return record;
}

// --peers and --python: other engines that run the same model beside Ridgepoint.
class PeerCommandLine {
 public:
  void add_to(CLI::App& app);
  bool is_given() const { return !peers_.empty(); }
  // Empty without --peers. Throws Error: usage for an unknown peer and for a configuration that peers cannot run,
  // otherwise if no Python with PyTorch is found.
  std::optional<PeerOptions> resolve(std::span<const RunConfig> configs) const;

 private:
  std::string peers_, python_;
};

void PeerCommandLine::add_to(CLI::App& app) {
  const OptionGroup group(app, "Peers");
  group.add("--peers", peers_, "NAMES",
            "time PyTorch beside Ridgepoint: torch, or a list of torch:eager, torch:compile, torch:reduce-overhead, "
            "torch:max-autotune, torch:max-autotune-no-cudagraphs",
            {"torch", "torch:eager", "torch:compile", "torch:reduce-overhead", "torch:max-autotune",
             "torch:max-autotune-no-cudagraphs"},
            Takes::list);
  group.add("--python", python_, "FILE",
            "the Python that has PyTorch [RIDGEPOINT_PYTHON, else python3 in PATH, else /usr/bin/python3]");
}

std::optional<PeerOptions> PeerCommandLine::resolve(std::span<const RunConfig> configs) const {
  require(!peers_.empty() || python_.empty(), "--python needs --peers");
  if (peers_.empty()) return std::nullopt;
  const std::vector<TorchMode> modes = parse_option("--peers", peers_, torch_modes_from);
  for (const RunConfig& config : configs) {
    require(config.device == "cpu" || config.device.starts_with("cuda"),
            "--peers: PyTorch has no device '{}'; use cpu or cuda", config.device);
    require(!config.device_options.memory_limit_bytes.has_value(),
            "--peers: --memory-limit would limit Ridgepoint alone; leave it out");
    require(config.compile.checkpoint == Checkpoint::none,
            "--peers: PyTorch runs without activation checkpointing; leave --checkpoint out");
    const CompileOptions& compile = config.compile;
    require(compile.precision != Precision::fp8, "--peers: PyTorch has no autocast to fp8; compare --dtype bf16");
    require(compile.optimizer.kind == OptimizerOptions().kind && compile.optimizer.is_usual() &&
                compile.optimizer.no_decay.empty() && !compile.clip_norm && compile.z_loss == 0 &&
                compile.master_weights && compile.frozen.empty() && !compile.lora && compile.accumulate == 1,
            "--peers: PyTorch trains all parameters with AdamW as it comes; leave the options of Training out");
    const TransformerConfig* model = config.workload->transformer();
    require(model != nullptr && model->architecture == Architecture(),
            "--peers: PyTorch runs the model of docs/model.md alone, in any size; '{}' is of another architecture",
            config.workload->describe().model.name);
    require(!config.detect_anomaly, "--peers: --detect-anomaly makes times that are not valid; leave it out");
  }
  return PeerOptions{find_python(python_, stop_if_interrupted), modes};
}

class Bench : public Command {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override { return "time forward, backward or training steps of a Transformer"; }
  std::string_view examples() const override {
    return "ridgepoint bench --model tiny,small --mode forward,forward_backward,step\n"
           "ridgepoint bench --model small --context 128:1024:*2 --output small.json\n"
           "ridgepoint bench --model small --compile off,fuse,full\n"
           "ridgepoint bench --model small --until 0.5% --until-limit 2min\n"
           "ridgepoint bench --model tiny --warmup 0,1,2,5 --cold\n"
           "ridgepoint bench --model small --checkpoint none,block --baseline checkpoint=none\n"
           "ridgepoint bench --model small --dtype bf16 --compile full --peers torch\n"
           "ridgepoint bench --model small,xl --first-call --cold-cache\n"
           "ridgepoint bench --model qwen2.5-0.5b --context 1024\n"
           "ridgepoint bench --model tiny --parallel data=2 --ranks 2\n"
           "mpirun -n 4 ridgepoint bench --model small --parallel data=4\n"
           "ridgepoint bench --layers 4 --d-model 512 --heads 16 --batch 64\n"
           "ridgepoint bench --model small --batch 1:64:*2 --memory-limit 8GiB";
  }
  std::string_view notes() const override {
    return "Options of Machine, Model and Work with a NAME, N or SIZE take a list (1,2,4) or a range (128:1024:*2, "
           "128:1024:+128, 1:4). Every combination is a row; the option listed last varies fastest. A row that does "
           "not fit in memory has status oom, and the sweep goes on. A NaN or infinite loss is an error: the exit "
           "code is 1. With --peers each combination has a row for Ridgepoint and one for each peer; their iterations "
           "alternate in rounds. A peer gets the same parameters and tokens, and a row whose logits, loss or gradients "
           "differ from Ridgepoint's is an error.";
  }
  void add_options(CLI::App& app) override {
    run_options_.add_to(app);
    rank_options_.add_to(app);
    run_options_.add_skip_to(app);
    add_option_of(app, "weights", weights_);
    until_options_.add_to(app);
    OptionGroup(app, "Work")
        .add_flag("--no-phases", leave_phases_out_,
                  "do not time forward, loss, recompute, backward and optimizer of each iteration by the device's "
                  "clock; each change of phase adds about a microsecond on a GPU");
    add_flag_of(app, "detect-anomaly", detect_anomaly_);
    RunOptions::add_run_anyway(app, run_anyway_);
    peer_options_.add_to(app);
    first_call_options_.add_to(app);
    output_options_.add_to(app);
    output_options_.add_columns_to(app, Experiment::bench);
    output_options_.add_plot_to(app);
    OptionGroup(app, "Output")
        .add("--baseline", baseline_, "NAME=VALUE",
             "show the speedup of each row over the one with this value of a swept option: compile=off, batch=1");
  }

  int run() override {
    if (const std::optional<std::size_t> row = first_call_options_.own_row()) return run_row(*row);
    const std::vector<RunConfig> configs = checked_configs();
    const std::optional<PeerOptions> peers = peer_options_.resolve(configs);
    RecordWriter writer(output_options_);
    if (!baseline_.empty()) writer.compare_with(checked_baseline(configs));
    run(configs, peers, writer);
    writer.finish();
    const std::size_t rows_each = 1 + (peers ? peers->modes.size() : 0);
    require_complete(writer.records().size(), configs.size() * rows_each, output_options_.path);
    if (detect_anomaly_ && is_first_rank()) say_if_nothing_was_found(writer.records());
    return exit_code(writer.records());
  }

 private:
  std::vector<RunConfig> checked_configs() {
    take_model_beside(weights_, run_options_);
    std::vector<RunConfig> configs = run_options_.expand();
    check_options(configs);
    for (RunConfig& config : configs) {
      config.detect_anomaly = detect_anomaly_;
      config.time_phases = !leave_phases_out_;
      config.run_anyway = run_anyway_;
    }
    output_options_.check();
    rank_options_.place(configs);
    for (RunConfig& config : configs) {
      if (config.group != nullptr) config.profiled_steps = kProfiledSteps;
    }
    until_options_.apply(run_options_, configs);
    if (!weights_.empty()) use_weights(weights_, configs);
    return configs;
  }

  tables::RecordBaseline checked_baseline(const std::vector<RunConfig>& configs) const {
    if (!is_for_people(output_options_.resolved_format()) && is_first_rank())
      print_error("--baseline adds a column to tables; csv, json and jsonl have the times themselves");
    std::vector<Record> records;
    for (const RunConfig& config : configs) records.push_back(describe_run(config, Experiment::bench));
    return parse_option("--baseline", baseline_,
                        [&](std::string_view text) { return tables::parse_baseline(text, records); });
  }

  void check_options(const std::vector<RunConfig>& configs) const {
    const auto computes = [](const RunConfig& config) { return config.device != "null"; };
    require(!detect_anomaly_ || std::ranges::all_of(configs, computes),
            "--detect-anomaly: --device null computes nothing; give one of the two");
    first_call_options_.check(run_options_);
    require(!first_call_options_.is_given() || (!detect_anomaly_ && !peer_options_.is_given()),
            "--first-call and --cold run Ridgepoint alone, in new processes; leave --detect-anomaly and --peers out");
    require(!run_options_.given("--fit-into") || (!first_call_options_.is_given() && !peer_options_.is_given()),
            "--fit-into chooses the schedule of Ridgepoint alone, before it is timed; leave --first-call, --cold and "
            "--peers out");
    const auto is_parallel = [](const RunConfig& config) { return config.compile.parallel.is_parallel(); };
    require(
        std::ranges::none_of(configs, is_parallel) || (!first_call_options_.is_given() && !peer_options_.is_given()),
        "--parallel runs in processes that mpirun starts; leave --first-call, --cold and --peers out");
    require(!until_options_.is_given() || !(first_call_options_.is_alone() || peer_options_.is_given()),
            "--until times no first call and no rounds with peers; give --steps instead");
  }

  static void say_if_nothing_was_found(const std::vector<Record>& records) {
    const auto is_ok = [](const Record& record) { return record.status == RunStatus::ok; };
    const auto rows = std::ranges::count_if(records, is_ok);
    if (rows == 0) return;
    print_error(fmt::format("no NaN and no infinity was found in {} row{}", rows, rows == 1 ? "" : "s"));
  }

  // The records of a configuration; empty if it was stopped.
  using Measure = std::function<std::vector<Record>(const RunConfig&, const StepWatcher&)>;

  void run(const std::vector<RunConfig>& configs, const std::optional<PeerOptions>& peers, RecordWriter& writer) const {
    if (first_call_options_.is_given()) return run_first_calls(configs, writer);
    CeilingCache ceilings;
    if (!peers) {
      return run(configs, writer, [&](const RunConfig& config, const StepWatcher& watch) {
        std::optional<FittedRun> fitted = fit_into(config, Experiment::bench, {}, watch);
        if (!fitted) return std::vector<Record>();
        if (fitted->failure) return std::vector{std::move(*fitted->failure)};
        std::optional<Record> record = config.group == nullptr ? measure_step(fitted->config, ceilings, watch)
                                                               : measure_step_on_rank(fitted->config, ceilings, watch);
        return record ? std::vector{std::move(*record)} : std::vector<Record>();
      });
    }
    PeerFiles files;
    run(configs, writer, [&](const RunConfig& config, const StepWatcher& watch) {
      return measure_with_peers(config, *peers, files, ceilings, watch).value_or(std::vector<Record>());
    });
  }

  void run_first_calls(const std::vector<RunConfig>& configs, RecordWriter& writer) const {
    std::vector<std::string> arguments = run_options_.arguments();
    if (!weights_.empty()) arguments.insert(arguments.end(), {"--weights", weights_});
    if (run_anyway_) arguments.emplace_back("--run-anyway");
    if (leave_phases_out_) arguments.emplace_back("--no-phases");
    const std::vector<std::string> until = until_options_.arguments();
    arguments.insert(arguments.end(), until.begin(), until.end());
    run(configs, writer, [&](const RunConfig& config, const StepWatcher& watch) {
      std::vector<Record> records;
      const auto row = static_cast<std::size_t>(&config - configs.data());
      is_stopped([&] { records.push_back(first_call_options_.measure(arguments, row, config, watch)); });
      return records;
    });
  }

  // In the process of a row: prints its record.
  int run_row(std::size_t row) {
    FirstCallClock clock;  // first, because reading the options may load the libraries of the GPU
    std::vector<RunConfig> configs = checked_configs();
    require(row < configs.size(), "--first-call-row: the sweep has {} rows", configs.size());
    const std::optional<Record> record = measure_in_own_process(configs[row], clock);
    print_output(to_json(*record) + "\n");
    return kExitOk;
  }

  std::optional<Record> measure_in_own_process(RunConfig config, FirstCallClock& clock) const {
    if (first_call_options_.is_cold()) {
      CeilingCache ceilings;
      return measure_step(config, ceilings, {}, {}, &clock);
    }
    config.warmup = 0;
    config.steps = 1;
    return measure_first_call(config, clock);
  }

  static void run(const std::vector<RunConfig>& configs, RecordWriter& writer, const Measure& measure) {
    std::vector<RowOutline> rows;
    for (const RunConfig& config : configs) rows.push_back(outline(config));
    run_rows(rows, [&](std::size_t row, Progress& progress) {
      std::vector<Record> records = measure(configs[row], shown_on(progress));
      progress.clear();
      for (Record& record : records) writer.add(std::move(record));
      return !records.empty();
    });
  }

  RunOptions run_options_{std::string(kRunSettings) + " fit-into"};
  RankOptions rank_options_;
  PeerCommandLine peer_options_;
  FirstCallOptions first_call_options_;
  UntilOptions until_options_;
  OutputOptions output_options_;
  std::string weights_, baseline_;
  bool detect_anomaly_ = false, leave_phases_out_ = false, run_anyway_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench() { return std::make_unique<Bench>(); }

}  // namespace ridgepoint::cli
