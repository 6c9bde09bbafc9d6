#include "predict/choose_parallel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/text/units.h"
#include "predict/forecast.h"

namespace ridgepoint {
namespace {

// The sizes of buckets that are tried, by factors of two.
constexpr std::int64_t kLeastBucketBytes = std::int64_t{1} << 20;
constexpr std::int64_t kMostBucketBytes = std::int64_t{512} << 20;
// A size is not preferred for a predicted time that is shorter by less than this.
constexpr double kAlike = 0.005;

// Smaller is better. Without predicted times, trials that fit are equal, whatever their memory. Sums of the same times
// in another order differ by less than a nanosecond.
auto order_of(const ParallelTrial& trial) {
  const bool compares_memory = !trial.fits || trial.ms.has_value();
  constexpr double kNsPerMs = 1e6;
  const double ns = trial.fits ? std::round(trial.ms.value_or(0) * kNsPerMs) : 0;
  return std::tuple(!trial.fits, ns, compares_memory ? trial.reserved_bytes : 0, trial.shard, -trial.bucket_bytes);
}

double ratio_to_usual(std::int64_t bucket_bytes) {
  const auto [less, more] = std::minmax(bucket_bytes, kBucketBytes);
  return static_cast<double>(more) / static_cast<double>(less);
}

class ParallelSearch {
 public:
  explicit ParallelSearch(const ParallelProblem& problem)
      : problem_(problem), chooses_bucket_(problem.chooses_bucket && runs_backward(problem.mode)) {}

  ParallelChoice run() {
    ParallelOptions options = problem_.options;
    for (const Sharding shard : shardings()) {
      options.shard = shard;
      attempt(options);
    }
    if (chooses_bucket_ && best().ms) {
      options.shard = best().shard;
      for (std::int64_t bytes = kLeastBucketBytes; bytes <= kMostBucketBytes; bytes *= 2) {
        if (bytes == problem_.options.bucket_bytes) continue;  // tried with the shardings
        options.bucket_bytes = bytes;
        attempt(options);
      }
    }
    const ParallelTrial taken = chosen();
    options.shard = taken.shard;
    options.bucket_bytes = taken.bucket_bytes;
    std::ranges::sort(trials_, {},
                      [](const ParallelTrial& trial) { return std::tuple(trial.shard, trial.bucket_bytes); });
    return {options, trials_, problem_.chooses_sharding || chooses_bucket_ ? reason() : ""};
  }

 private:
  std::vector<Sharding> shardings() const {
    if (!problem_.chooses_sharding) return {problem_.options.shard};
    std::vector<Sharding> all(kAllShardings.begin(), kAllShardings.end());
    if (problem_.mode != Mode::step) all = {Sharding::none, Sharding::parameters};  // the others divide the optimizer
    if (!problem_.options.overlap) std::erase_if(all, std::not_fn(keeps_gradients));
    return all;
  }

  void attempt(const ParallelOptions& options) {
    const ProgramPlan plan = problem_.plan_of(options);
    const Forecaster forecast = forecaster_of(plan, {.stop_point = problem_.stop_point});
    const MemoryForecast unlimited = forecast(std::nullopt);
    std::optional<MemoryForecast> within = unlimited;
    if (problem_.memory_bytes) within = forecast_within(forecast, unlimited, *problem_.memory_bytes);
    trials_.push_back({.shard = options.shard,
                       .bucket_bytes = options.bucket_bytes,
                       .reserved_bytes = within.value_or(unlimited).use.peak_reserved_bytes,
                       .fits = within.has_value(),
                       .ms = problem_.ms_of(plan)});
  }

  const ParallelTrial& best() const { return *std::ranges::min_element(trials_, {}, order_of); }

  // The best trial. If sizes of buckets are chosen, an equally good trial with a size nearer to the usual one.
  const ParallelTrial& chosen() const {
    const ParallelTrial* nearest = &best();
    if (!chooses_bucket_ || !best().fits || !best().ms) return *nearest;
    for (const ParallelTrial& trial : trials_) {
      if (trial.shard != best().shard || !trial.fits || !trial.ms || *trial.ms > *best().ms * (1 + kAlike)) continue;
      if (ratio_to_usual(trial.bucket_bytes) < ratio_to_usual(nearest->bucket_bytes)) nearest = &trial;
    }
    return *nearest;
  }

  std::string reason() const {
    const std::string bucket =
        fmt::format("buckets of {}", format_bytes(static_cast<std::uint64_t>(chosen().bucket_bytes)));
    const std::string what = !problem_.chooses_sharding ? bucket
                             : chooses_bucket_          ? fmt::format("{} with {}", name(chosen().shard), bucket)
                                                        : std::string(name(chosen().shard));
    const std::string options =
        fmt::format("{}{}{}", problem_.chooses_sharding ? "--shard auto" : "",
                    problem_.chooses_sharding && chooses_bucket_ ? " and " : "", chooses_bucket_ ? "bucket=auto" : "");
    return fmt::format("{} took {}: {}.", options, what, advantage());
  }

  std::string advantage() const {
    if (!best().fits && trials_.size() > 1) return "nothing fits, and this needs the least memory";
    if (best().ms) {
      const bool all_fit = std::ranges::all_of(trials_, &ParallelTrial::fits);
      const bool is_alike = chosen().ms > best().ms;
      return fmt::format("{}the least predicted time{}{}", is_alike ? "within 0.5 % of " : "",
                         all_fit ? "" : " of what fits", is_alike ? ", and nearer to the usual size" : "");
    }
    const std::string_view why = "No time is predicted, which takes a known GPU and its links";
    if (!problem_.chooses_sharding) return fmt::format("the usual size. {}", why);
    return fmt::format("the first of {} that fits. {}", fmt::join(names(), ", "), why);
  }

  std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const Sharding shard : shardings()) names.push_back(name(shard));
    return names;
  }

  const ParallelProblem& problem_;
  const bool chooses_bucket_;
  std::vector<ParallelTrial> trials_;
};

}  // namespace

ParallelChoice choose_parallel(const ParallelProblem& problem) { return ParallelSearch(problem).run(); }

}  // namespace ridgepoint
