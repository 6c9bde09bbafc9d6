#include "study/pages/published_beside.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "inspect/published/compare.h"
#include "inspect/published/published_rows.h"

namespace ridgepoint::views {
namespace {

// The first of these figures that a row has.
std::optional<double> figure(const PublishedRow& row, std::initializer_list<std::string_view> quantities) {
  for (const std::string_view quantity : quantities) {
    const auto found = std::ranges::find(row.figures, quantity, &PublishedFigure::quantity);
    if (found != row.figures.end()) return found->value;
  }
  return std::nullopt;
}

std::optional<double> bytes(const PublishedRow& row, std::string_view mebibytes) {
  const std::optional<double> value = figure(row, {mebibytes});
  return value ? std::optional(*value * 1024 * 1024) : std::nullopt;
}

bool is_usual(const PublishedRow& row) { return row.table != "no_warmup" && row.table != "under_profiler"; }

}  // namespace

std::vector<PublishedBeside> published_beside(std::span<const Record> records) {
  std::vector<PublishedBeside> found;
  std::vector<const PublishedRow*> taken;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const Comparable& comparable : comparable_rows(records[i], published_rows())) {
      const PublishedRow& row = *comparable.row;
      if (!is_usual(row) || std::ranges::find(taken, &row) != taken.end()) continue;
      taken.push_back(&row);
      const bool is_attention = row.kind == PublishedKind::attention;
      found.push_back({.record = i,
                       .study = row.study,
                       .label = comparable.label,
                       .is_out_of_memory = row.status == "oom",
                       .time_ms = is_attention ? std::nullopt : figure(row, {"median_ms", "mean_ms", "time_ms"}),
                       .forward_ms = figure(row, {"forward_ms"}),
                       .backward_ms = figure(row, {"backward_ms"}),
                       .before_backward_bytes = bytes(row, "memory_before_backward_mib"),
                       .peak_bytes = bytes(row, "peak_mib")});
    }
  }
  return found;
}

}  // namespace ridgepoint::views
