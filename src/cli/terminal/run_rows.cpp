#include "cli/terminal/run_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/terminal/interrupt.h"

namespace ridgepoint::cli {
namespace {

std::string stage_text(const StepProgress& at) {
  if (at.count == 0) return std::string(name(at.stage));
  return fmt::format("{} {}/{}", name(at.stage), at.index + 1, at.count);
}

}  // namespace

RowOutline outline(const RunConfig& config) {
  const WorkloadDescription workload = config.workload->describe();
  const Mode mode = config.compile.mode;
  const auto iterations = static_cast<double>(config.warmup + config.steps + config.profiled_steps);
  if (workload.model.parameters == 0) {  // one call
    const double operations = static_cast<double>(config.workload->flops(mode)) * iterations;
    // With a time budget, no row takes much longer than another.
    return {fmt::format("{} attention d_model {} sequence {}",
                        workload.attention ? name(*workload.attention) : std::string_view("plain"),
                        workload.model.d_model, workload.context),
            config.budget_seconds ? std::min(operations, 1e12) + 1e10 : operations + 1e10};
  }
  const double passes = runs_backward(mode) ? 3 : 1;
  return {fmt::format("{} {} batch {} context {}", workload.model.name, name(mode), workload.batch, workload.context),
          static_cast<double>(workload.model.parameters) *
              (static_cast<double>(config.workload->units()) * passes * iterations + 100)};
}

void run_rows(std::span<const RowOutline> rows,
              const std::function<bool(std::size_t row, Progress& progress)>& run_row) {
  std::vector<double> costs;
  for (const RowOutline& row : rows) costs.push_back(row.cost);
  Progress progress(std::move(costs));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (interrupted()) return;
    progress.start_row(row, rows[row].description);
    if (!run_row(row, progress)) return;
    progress.clear();
  }
}

StepWatcher shown_on(Progress& progress) {
  return [&progress](const StepProgress& at) {
    progress.update(stage_text(at), at.share);
    return !interrupted();
  };
}

void stop_row_if_interrupted() {
  if (interrupted()) stop_run();
}

void require_complete(std::size_t finished, std::size_t rows, std::string_view path, std::string_view what) {
  if (finished == rows) return;
  const std::string where = path.empty() ? "" : fmt::format(", in '{}'", path);
  throw Interrupted(fmt::format("interrupted; {} of {} {} finished{}", finished, rows, what, where));
}

}  // namespace ridgepoint::cli
