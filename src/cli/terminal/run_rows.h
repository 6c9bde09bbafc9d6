// The loop of every sweep: runs the rows one after the other, draws the progress line and stops at Ctrl-C.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cli/terminal/progress.h"
#include "run/session/session.h"

namespace ridgepoint::cli {

struct RowOutline {
  std::string description;  // "small step batch 4 context 256"
  double cost = 1;          // roughly proportional to its time, for the estimate of the remaining time
};
// The outline of a run.
RowOutline outline(const RunConfig& config);

// Ends early after Ctrl-C. `run_row` returns false if it was stopped.
void run_rows(std::span<const RowOutline> rows,
              const std::function<bool(std::size_t row, Progress& progress)>& run_row);

// The same with one row. What `run` returns is empty if it was stopped.
template <typename Run>
auto run_row(const RowOutline& row, const Run& run) {
  decltype(run(std::declval<Progress&>())) result;
  run_rows({&row, 1}, [&](std::size_t, Progress& progress) {
    result = run(progress);
    progress.clear();
    return result.has_value();
  });
  return result;
}

// A watcher that updates the progress line and stops the run after Ctrl-C.
StepWatcher shown_on(Progress& progress);

// For StopPoint within run_row: ends the enclosing is_stopped() after Ctrl-C.
void stop_row_if_interrupted();

// Throws Interrupted if rows are missing: "interrupted; 2 of 5 rows finished, in 'x.json'".
void require_complete(std::size_t finished, std::size_t rows, std::string_view path, std::string_view what = "rows");

}  // namespace ridgepoint::cli
