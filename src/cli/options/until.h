// --until and --until-limit: sampling ends when the median is known well enough.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/run_options.h"
#include "ridgepoint/models/run_config.h"

namespace CLI {
class App;
}

namespace ridgepoint::cli {

class UntilOptions {
 public:
  void add_to(CLI::App& app);
  bool is_given() const { return !until_.empty(); }
  // Sets both in each configuration; without --steps, the number of iterations has no practical maximum. Throws Error
  // (usage) for a malformed value, and for --until-limit without --until.
  void apply(const RunOptions& run_options, std::span<RunConfig> configs) const;
  // The options of the command line as words, as given.
  std::vector<std::string> arguments() const;

 private:
  std::string until_, limit_;
};

// "0.5%" -> 0.005; above 0 and below 100 %. Throws Error (usage).
double parse_percentage(std::string_view text);
// "90s", "2min", "1h" -> seconds, above 0. Throws Error (usage).
double parse_seconds(std::string_view text);

}  // namespace ridgepoint::cli
