// The loop of every sweep: rows are run one after the other, the progress line says which and how far, and Ctrl-C ends
// it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/progress.h"
#include "measure/session/session.h"

namespace ridgepoint::cli {

struct RowOutline {
  std::string description;  // "small step batch 4 context 256"
  double cost = 1;          // in proportion to the time it takes, roughly: the estimate of the time left rests on it
};
// Of a run of its workload.
RowOutline outline(const RunConfig& config);

// `run_row` returns false where it was stopped. How many rows were finished; fewer than all after Ctrl-C.
std::size_t run_rows(std::span<const RowOutline> rows,
                     const std::function<bool(std::size_t row, Progress& progress)>& run_row);

// Shows on the progress line where a run stands; stops it after Ctrl-C.
StepWatcher shown_on(Progress& progress);

// Throws Interrupted where rows are missing: "interrupted; 2 of 5 rows finished, in 'x.json'".
void require_complete(std::size_t finished, std::size_t rows, std::string_view path, std::string_view what = "rows");

}  // namespace ridgepoint::cli
