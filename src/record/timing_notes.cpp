#include "record/timing_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "record/columns.h"

namespace ridgepoint::views {
namespace {

std::string_view advice_on(TimingVerdict verdict) {
  switch (verdict) {
    case TimingVerdict::steady:
      return "";
    case TimingVerdict::drifting:
      return "the times rise or fall during the run; raise --warmup until they level off.";
    case TimingVerdict::bimodal:
      return "the times fall into two groups, and no average describes both; look at time_ms.samples, pin the threads, "
             "and repeat the run.";
    case TimingVerdict::outliers:
      return "a few iterations move the mean; compare medians, or raise --steps.";
    case TimingVerdict::throttled:
      return "the clocks were lowered, for power or heat; let the machine cool, or fix a lower clock (nvidia-smi "
             "-lgc), "
             "and repeat the run.";
    case TimingVerdict::disturbed:
      return "other programs or virtual machines took processor time; stop them or use fewer --threads, and repeat the "
             "run.";
    case TimingVerdict::too_few:
      return "the median is not known well enough; raise --steps, or let bench --until find their number.";
  }
  return "";
}

bool has(const Record& record, TimingVerdict verdict) {
  return record.status == RunStatus::ok && record.timing.verdict == verdict;
}

}  // namespace

std::string timing_notes(std::span<const Record> records) {
  std::string notes;
  for (const TimingVerdict verdict : kAllTimingVerdicts) {
    if (verdict == TimingVerdict::steady) continue;
    if (std::ranges::none_of(records, [&](const Record& record) { return has(record, verdict); })) continue;
    notes += fmt::format("{}~ {}: {}", notes.empty() ? "" : "\n", name(verdict), advice_on(verdict));
  }
  return notes;
}

}  // namespace ridgepoint::views
