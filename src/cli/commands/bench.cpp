// ridgepoint bench: times every configuration of a sweep. A row is written before the next one begins; a row that
// fails reports its error, and the sweep goes on.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>

#include "cli/commands/command.h"
#include "cli/options/run_options.h"
#include "cli/options/weights_file.h"
#include "cli/terminal/output.h"
#include "cli/terminal/run_rows.h"
#include "measure/session/step_benchmark.h"
#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

class Bench : public Command {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override { return "time forward, backward or training steps of a Transformer"; }
  std::string_view examples() const override {
    return "ridgepoint bench --model tiny,small --mode forward,backward,step\n"
           "ridgepoint bench --model small --context 128:1024:*2 --output small.json\n"
           "ridgepoint bench --model tiny --warmup 0,1,2,5 --format jsonl\n"
           "ridgepoint bench --layers 4 --d-model 512 --d-ff 1344 --heads 16 --batch 64\n"
           "ridgepoint bench --model small --batch 1:64:*2 --memory-limit 8GiB";
  }
  std::string_view notes() const override {
    return "Options of Machine, Model and Work with a NAME, N or SIZE take a list (1,2,4) or a range (128:1024:*2, "
           "128:1024:+128, 1:4). Every combination is a row; the option listed last varies fastest. A row that does "
           "not fit in memory has status oom, and the sweep goes on. A NaN or infinite loss is an error: the exit "
           "code is 1.";
  }
  void add_options(CLI::App& app) override {
    run_options_.add_to(app);
    app.add_option("--weights", weights_, "read the parameters from a safetensors file [random, from --seed]")
        ->type_name("FILE")
        ->group("Work");
    app.add_flag(
           "--detect-anomaly", detect_anomaly_,
           "check every result for NaN and infinity and name the first node that makes one; the times are not valid")
        ->group("Work");
    RunOptions::add_run_anyway(app, run_anyway_);
    output_options_.add_to(app);
    output_options_.add_columns_to(app, OutputOptions::Rows::models);
  }

  int run() override {
    std::vector<RunConfig> configs = run_options_.expand();
    check_options(configs);
    for (RunConfig& config : configs) {
      config.detect_anomaly = detect_anomaly_;
      config.run_anyway = run_anyway_;
    }
    if (!weights_.empty()) use_weights(weights_, configs);
    RecordWriter writer(output_options_);
    run(configs, writer);
    writer.finish();
    require_complete(writer.records().size(), configs.size(), output_options_.path);
    if (detect_anomaly_) say_if_nothing_was_found(writer.records());
    return exit_code(writer.records());
  }

 private:
  void check_options(const std::vector<RunConfig>& configs) const {
    const auto computes = [](const RunConfig& config) { return config.device != "null"; };
    if (detect_anomaly_ && !std::ranges::all_of(configs, computes)) {
      throw Error("--detect-anomaly: --device null computes nothing; give one of the two", ErrorKind::usage);
    }
  }

  static void say_if_nothing_was_found(const std::vector<Record>& records) {
    const auto is_ok = [](const Record& record) { return record.status == RunStatus::ok; };
    const auto rows = std::ranges::count_if(records, is_ok);
    if (rows == 0) return;
    print_error(fmt::format("no NaN and no infinity was found in {} row{}", rows, rows == 1 ? "" : "s"));
  }

  static void run(const std::vector<RunConfig>& configs, RecordWriter& writer) {
    std::vector<RowOutline> rows;
    for (const RunConfig& config : configs) rows.push_back(outline(config));
    CeilingCache ceilings;
    run_rows(rows, [&](std::size_t row, Progress& progress) {
      std::optional<Record> record = measure_step(configs[row], ceilings, shown_on(progress));
      if (!record) return false;
      progress.clear();
      writer.add(std::move(*record));
      return true;
    });
  }

  RunOptions run_options_;
  OutputOptions output_options_;
  std::string weights_;
  bool detect_anomaly_ = false, run_anyway_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench() { return std::make_unique<Bench>(); }

}  // namespace ridgepoint::cli
