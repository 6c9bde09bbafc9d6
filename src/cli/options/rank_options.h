// The options --parallel and --ranks: how a run is divided among processes, and who starts them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cli/options/run_options.h"

namespace ridgepoint::cli {

// What --parallel changes of each run. Throws Error (usage).
std::vector<Axis::Change> divisions_of(std::string_view text);

// --ranks, for commands that run.
class RankOptions {
 public:
  void add_to(CLI::App& app);
  bool is_given() const { return ranks_ > 0; }
  // With --ranks, outside of a parallel run, starts one instead of this process and does not return.
  void start() const;
  // The same; then places every configuration on this rank. Throws Error (usage) where the ranks do not fit the
  // configurations.
  void place(std::span<RunConfig> configs) const;

 private:
  std::int64_t ranks_ = 0;  // 0: not given
};

}  // namespace ridgepoint::cli
