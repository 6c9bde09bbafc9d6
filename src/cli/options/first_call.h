// --first-call, --cold and --cold-cache: every row of a sweep is run in a process of its own, which measures where the
// time of its first call goes. With --first-call the row is that call alone.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/options/run_options.h"
#include "ridgepoint/record.h"
#include "run/session/session.h"

namespace CLI {
class App;
}

namespace ridgepoint::cli {

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

}  // namespace ridgepoint::cli
