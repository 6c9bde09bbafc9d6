#include "cli/options/first_call.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands/command.h"
#include "core/files/temporary_folder.h"
#include "core/processes/child_process.h"

namespace ridgepoint::cli {

void FirstCallOptions::add_to(CLI::App& app) {
  app.add_flag("--cold", is_cold_,
               "time each row in a new process, so that no row gains from an earlier one, and its first call apart")
      ->group("First call");
  app.add_flag("--first-call", is_alone_,
               "time the first run instead, each row in a new process: where the time from the start to its end goes")
      ->group("First call");
  add_flag_of(app, "cold-cache", cold_cache_);
  // A new process is started with it; the empty group keeps it out of the help.
  app.add_option("--first-call-row", row_, "")->group("");
}

void FirstCallOptions::check(const RunOptions& run_options) const {
  require(is_given() || !cold_cache_, "--cold-cache needs --cold or --first-call");
  require(!is_alone_ || !is_cold_, "--first-call times the first call alone, --cold also later ones; give one of them");
  if (!is_alone_) return;
  for (const char* flag : {"--warmup", "--steps"}) {
    require(!run_options.given(flag),
            fmt::format("{} has no effect with --first-call, which runs once; leave it out", flag));
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

}  // namespace ridgepoint::cli
