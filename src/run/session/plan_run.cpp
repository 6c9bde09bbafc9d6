#include "run/session/plan_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/warning.h"
#include "predict/forecast.h"
#include "predict/time/forecast_time.h"
#include "predict/torch/torch_forecast.h"
#include "ridgepoint/core/error.h"
#include "run/session/ranks.h"
#include "run/session/run_record.h"
#include "runtime/device/device.h"

namespace ridgepoint {
namespace {

struct Prediction {
  MemoryForecast forecast;               // of a run that fits, with the limit; else without
  std::optional<bool> fits = {};         // empty without a capacity
  ParallelOptions parallel = {};         // as configured or chosen
  std::optional<ProgramPlan> plan = {};  // of this engine
};

Prediction predict(const Forecaster& forecast, const MemoryLimit& limit) {
  const MemoryForecast unlimited = forecast(std::nullopt);
  if (!limit.capacity_bytes) return {unlimited};
  const std::optional<MemoryForecast> within = forecast_within(forecast, unlimited, limit.bytes());
  return {within.value_or(unlimited), within.has_value()};
}

void describe_time(const ProgramPlan& plan, const RunConfig& config, PlanSection& section) {
  const auto& [forecast, problem] = forecast_time(plan, config, section.card);
  if (!forecast) {
    if (section.card && config.device == "null" && !problem.empty()) section.predicted_problem = problem;
    return;
  }
  if (config.compile.parallel.is_parallel()) {
    section.predicted_communication_ms = forecast->communication_ms;
    section.predicted_exposed_ms = forecast->exposed_ms;
  }
  section.predicted_ms = forecast->ms;
  section.predicted_error = forecast->error;
  section.predicted_low_ms = forecast->low_ms;
  section.predicted_high_ms = forecast->high_ms;
  if (!forecast->warning.empty()) section.predicted_problem = forecast->warning;
  const PhaseTimes& phases = forecast->by_phase;
  section.predicted_phase_ms = {.forward = phases[Phase::forward],
                                .loss = phases[Phase::loss],
                                .recompute = phases[Phase::recompute],
                                .backward = phases[Phase::backward],
                                .optimizer = phases[Phase::optimizer]};
}

// The operations, and the rates at the predicted time, as a measured run has them.
void describe_rates(const RunConfig& config, Record& record) {
  PlanSection& section = *record.plan;
  record.training_step->flops_per_step = config.workload->flops(config.compile);
  if (!section.predicted_ms) return;
  Record as_measured = record;
  as_measured.training_step->time_ms.mean = *section.predicted_ms;
  fill_rates(as_measured, *config.workload);
  section.predicted_tokens_per_second = as_measured.training_step->tokens_per_second;
  section.predicted_mfu = as_measured.training_step->mfu;
}

// Fills the fields of the device and the program.
Prediction predict(const RunConfig& config, const MemoryLimit& limit, const StepWatcher& watch, Record& record) {
  if (config.plan_as != PlanAs::ridgepoint) {
    record.threads = 1;
    const auto stop_point = [&] {
      if (watch && !watch({StepProgress::Stage::planning})) stop_run();
    };
    return predict([&](auto memory_bytes) { return forecast_torch(config, limit.card, memory_bytes, stop_point); },
                   limit);
  }
  Session session(config, watch, record);
  const ProgramPlan plan = session.plan(limit);
  if (record.training_step) describe_ranks(session.parallel(), plan.graph(), record.training_step->parallel);
  Prediction prediction =
      predict(forecaster_of(plan, {.stop_point = session.stop_point(StepProgress::Stage::planning)}), limit);
  prediction.parallel = session.parallel();
  prediction.plan = plan;
  return prediction;
}

// The peak that a run whose loss is computed in chunks would have without chunks, divided in the same way.
std::size_t peak_without_chunks(RunConfig config, const ParallelOptions& parallel, const MemoryLimit& limit,
                                const StepWatcher& watch, Record record) {
  config.compile.loss_chunk_rows = 0;
  config.compile.parallel = parallel;
  config.choose_sharding = config.choose_bucket = false;
  Session session(config, watch, record);
  const ProgramPlan plan = session.plan(limit);
  return forecast_memory(plan, {.stop_point = session.stop_point(StepProgress::Stage::planning)})
      .use.peak_allocated_bytes;
}

Record record_of_plan(const RunConfig& config, const MemoryLimit& limit) {
  Record record = describe_run(config, Experiment::plan);
  PlanSection& section = record.plan.emplace();
  section.card = limit.card;
  section.capacity_bytes = limit.capacity_bytes;
  section.as = name(config.plan_as);
  if (config.keeps_output) section.keep_output = true;
  return record;
}

// Fills the record with the figures of the prediction.
void fill(const Prediction& prediction, const RunConfig& config, const MemoryLimit& limit, const StepWatcher& watch,
          Record& record) {
  PlanSection& section = *record.plan;
  if (prediction.plan) describe_time(*prediction.plan, config, section);
  describe_rates(config, record);
  record_memory(record, prediction.forecast);
  section.fits = prediction.fits;
  // Policies from a search would differ without chunks, and so would other saved tensors.
  if (record.loss_chunk_rows && config.compile.checkpoint != Checkpoint::automatic && !config.schedule) {
    const std::size_t whole = peak_without_chunks(config, prediction.parallel, limit, watch, record);
    section.loss_chunks_save_bytes = static_cast<std::int64_t>(whole) - *record.memory_bytes.peak_allocated;
  }
  if (!limit.capacity_bytes) return;
  section.room_bytes = *limit.capacity_bytes - *record.memory_bytes.peak_reserved;
}

// A size that fits, before its record has the figures of the prediction.
struct FittingSize {
  std::int64_t size = 0;  // 0: none fits
  Record record = {};
  Prediction prediction = {};
};

// As largest_size() searches for it.
FittingSize largest_fitting(const std::function<RunConfig(std::int64_t)>& config_of, const MemoryLimit& limit,
                            std::int64_t most, std::int64_t granularity, const StepWatcher& watch) {
  if (!limit.capacity_bytes)
    throw Error("the largest that fits needs a memory to fit in; name a card or a limit", ErrorKind::usage);
  FittingSize last;
  const auto fits_at = [&](std::int64_t size) -> Fit {
    const RunConfig config = config_of(size);
    Record record = record_of_plan(config, limit);
    Prediction prediction = predict(config, limit, watch, record);
    const bool grows_steadily = config.plan_as == PlanAs::ridgepoint && record.allocator == AllocatorKind::arena;
    const auto reserved_bytes = static_cast<double>(prediction.forecast.use.peak_reserved_bytes);
    const Fit fit{*prediction.fits, grows_steadily ? reserved_bytes / static_cast<double>(limit.bytes()) : 0};
    if (fit.fits) last = {size, std::move(record), std::move(prediction)};
    return fit;
  };
  largest_that_fits(fits_at, granularity, most);
  return last;
}

// The search for the largest size from 1 to `last` that fits.
class SizeSearch {
 public:
  explicit SizeSearch(std::int64_t last) : last_(last) {}

  // The largest that is known to fit, or 0.
  std::int64_t largest() const { return low_.size; }

  // The size to try; empty where the largest is known.
  std::optional<std::int64_t> next() {
    if (high_ ? high_->size - low_.size <= 1 : low_.size == last_) return std::nullopt;
    if (low_.size == 0 && !high_) return 1;
    if (high_) return next_between(*high_);
    const std::optional<double> guess = crossing(before_, low_);
    if (!guess) return low_.size < last_ / kBlindGrowth ? kBlindGrowth * low_.size : last_;
    const auto size = static_cast<double>(low_.size);
    // Small steps double, so that the search ends even if shares mislead.
    small_steps_ = *guess - size < size / kSmallPart ? std::min(small_steps_ + 1, kMostSmallSteps) : 0;
    const std::int64_t least_step = std::int64_t{1} << std::max(small_steps_ - 1, 0);
    if (least_step >= last_ - low_.size) return last_;
    const double step = std::clamp(*guess - size, static_cast<double>(least_step), kMostGrowth * size);
    return step < static_cast<double>(last_ - low_.size) ? low_.size + static_cast<std::int64_t>(step) : last_;
  }

  void add(std::int64_t size, const Fit& fit) {
    if (!fit.fits) {
      high_ = {size, fit.share};
      return;
    }
    // Two sizes beside each other say little of the growth.
    if (before_.size == 0 || size - low_.size > low_.size / kSmallPart) before_ = low_;
    low_ = {size, fit.share};
  }

 private:
  struct Point {
    std::int64_t size = 0;
    double share = 0;
  };
  static constexpr std::int64_t kBlindGrowth = 4;
  static constexpr double kMostGrowth = 64;
  static constexpr std::int64_t kSmallPart = 8;  // of a size
  static constexpr int kMostSmallSteps = 40;
  static constexpr int kMostSlowTries = 2;

  // Quadratic growth of memory lies below the line through a size that fits and one that does not, and above the line
  // through two sizes that fit, so the two lines alternate.
  std::int64_t next_between(const Point& high) {
    const std::int64_t width = high.size - low_.size;
    const std::optional<double> outer = is_inner_ ? crossing(before_, low_) : std::nullopt;
    const std::optional<double> guess = outer ? outer : crossing(low_, high);
    is_inner_ = !is_inner_;
    if (!guess || !is_shrinking(width)) return low_.size + width / 2;
    const auto least = static_cast<double>(low_.size + 1);
    return static_cast<std::int64_t>(std::clamp(*guess, least, static_cast<double>(high.size - 1)));
  }

  // Where the line through two sizes says that the memory is full.
  static std::optional<double> crossing(const Point& a, const Point& b) {
    if (a.share <= 0 || b.share <= a.share) return std::nullopt;
    return static_cast<double>(a.size) + (1 - a.share) * static_cast<double>(b.size - a.size) / (b.share - a.share);
  }

  // Whether the last tries have halved what is left.
  bool is_shrinking(std::int64_t width) {
    const bool is_half = width_ == 0 || width <= width_ / 2;
    if (!is_half && ++slow_tries_ < kMostSlowTries) return true;
    width_ = width;
    slow_tries_ = 0;
    return is_half;
  }

  std::int64_t last_;
  Point low_, before_;         // the two largest that fit
  std::optional<Point> high_;  // the smallest that does not
  int small_steps_ = 0;        // one after another, while all sizes fit
  bool is_inner_ = false;      // whether the last guess lay on the line to the size that does not fit
  std::int64_t width_ = 0;     // between the sizes that fit and those that do not
  int slow_tries_ = 0;
};

}  // namespace

std::optional<Record> plan_run(const RunConfig& config, const MemoryLimit& limit, const StepWatcher& watch) {
  return record_run(record_of_plan(config, limit),
                    [&](Record& record) { fill(predict(config, limit, watch, record), config, limit, watch, record); });
}

std::optional<Record> plan_largest(const std::string& size, const std::function<RunConfig(std::int64_t)>& config_of,
                                   const MemoryLimit& limit, std::int64_t most, std::int64_t granularity,
                                   const StepWatcher& watch) {
  FittingSize largest;
  std::optional<Record> record = record_run(describe_run(config_of(1), Experiment::plan), [&](Record& row) {
    largest = largest_fitting(config_of, limit, most, granularity, watch);
    if (largest.size == 0 && granularity > 1) largest = largest_fitting(config_of, limit, granularity - 1, 1, watch);
    if (largest.size == 0) return;
    row = std::move(largest.record);
    fill(largest.prediction, config_of(largest.size), limit, watch, row);
    row.plan->fitted = size;
  });
  if (record && record->status == RunStatus::ok && largest.size == 0) return plan_run(config_of(1), limit, watch);
  if (largest.size == most && record && record->status == RunStatus::ok)
    warn_once("--fit " + size,
              fmt::format("--fit {0} tries {1} at most, which fits; give --{0} to plan a larger one", size, most));
  return record;
}

std::int64_t largest_size(const std::function<RunConfig(std::int64_t)>& config_of, const MemoryLimit& limit,
                          std::int64_t most, std::int64_t granularity, const StepWatcher& watch) {
  return largest_fitting(config_of, limit, most, granularity, watch).size;
}

std::int64_t largest_that_fits(const std::function<Fit(std::int64_t)>& fits, std::int64_t granularity,
                               std::int64_t most) {
  SizeSearch search(most / granularity);
  while (const std::optional<std::int64_t> size = search.next()) search.add(*size, fits(*size * granularity));
  return search.largest() * granularity;
}

}  // namespace ridgepoint
