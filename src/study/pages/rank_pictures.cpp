// The pictures of several ranks: collectives, shardings, the ways to sum gradients, and hidden communication.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "study/answers/rows.h"
#include "study/pages/parts.h"

namespace ridgepoint::tables {
namespace {

void add_collectives(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  if (rows.empty()) return;
  const Json& first = rows.front();
  const auto name = [&](const Json& row) {
    const bool is_same =
        text_at(row, "device") == text_at(first, "device") && field(row, "ranks") == field(first, "ranks");
    const std::string where = fmt::format(", {:.0f} ranks of {}", number_at(row, "ranks"), text_at(row, "device"));
    return text_at(row, "op") + (is_same ? "" : where);
  };
  add_curves(files, "collectives",
             {.title = "Bandwidth of collectives by size",
              .subtitle = "as a link of a ring carries it",
              .x_title = "bytes",
              .y_title = "GB/s",
              .x_unit = SvgUnit::bytes,
              .series = curves(rows, "bytes", "bus_gb_per_second", name)});
}

void add_ranks(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  if (rows.empty()) return;
  SvgRows chart = marks(
      rows, "time_ms", [](const Json& row) { return text_at(row, "model.name"); },
      [](const Json& row) { return "shard " + text_at(row, "parallel.shard"); });
  chart.title = "A step on several ranks, by what they share";
  chart.subtitle = shared_settings(rows) + "; median and range of rank 0";
  chart.x_title = "ms";
  add_picture(files, "ranks", svg_rows(chart));
}

// A step by the way in which gradients are summed: the times in which a rank only computes, computes and sends, and
// waits. A planned row has predictions of all three.
void add_ways(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  if (rows.empty()) return;
  const bool is_all_planned = std::ranges::all_of(rows, is_planned);
  SvgBars chart{
      .title = "A step by the way in which gradients are summed",
      .subtitle = fmt::format("{}, {:.0f} ranks; {}", shared_settings(rows), number_at(rows.front(), "parallel.data"),
                              is_all_planned ? "predicted" : "median of the slowest rank"),
      .x_title = "ms of a step",
      .series = {"computes alone", "computes and sends", "waits for what is sent", "not divided"},
      .bars = {}};
  for (const Json& row : rows) {
    const bool planned = is_planned(row);
    const double step = number_at(row, planned ? "predicted_ms" : "parallel.slowest_ms");
    const double sent = number_at(row, planned ? "predicted_communication_ms" : "parallel.communication_ms");
    const double exposed = number_at(row, planned ? "predicted_exposed_ms" : "parallel.exposed_ms");
    if (!(step > 0)) continue;
    const bool is_known = sent >= 0 && exposed >= 0;
    SvgBar& bar = chart.bars.emplace_back(SvgBar{.label = answers::way_of(row), .parts = {0, 0, 0, step}});
    if (planned && !is_all_planned) bar.label += ", predicted";
    if (is_known) bar.parts = {std::max(0.0, step - sent), std::max(0.0, sent - exposed), exposed, 0};
  }
  add_picture(files, "data_parallel", svg_bars(chart));
}

// A time of a rank over its tokens.
struct TimeOfTokens {
  std::string name;
  bool is_sent = false;
  double fixed_ms = 0;    // of any number of tokens
  double ms_of_each = 0;  // token
  double from = 0;        // the tokens from which it hides; 0: of any number; infinity: of none

  double ms(double tokens) const { return fixed_ms + ms_of_each * tokens; }
  bool has_crossing() const { return from > 0 && std::isfinite(from); }
};

// From the rows of `plan --explain`; those of which a figure is missing are left out. web/src/report/sending.ts does
// the same.
std::vector<TimeOfTokens> times_of_tokens(const std::vector<Json>& rows) {
  const auto value = [&](std::string_view key) {
    const auto row = std::ranges::find_if(rows, [&](const Json& each) { return text_at(each, "key") == key; });
    return row == rows.end() ? std::numeric_limits<double>::quiet_NaN() : number_at(*row, "value");
  };
  const auto each = [&](double seconds) { return 1000 * seconds / value("symbol.T"); };
  const auto computed = [&](std::string_view pass, std::string_view key) {
    return TimeOfTokens{.name = fmt::format("{}, computed", pass), .ms_of_each = each(value(key))};
  };
  const auto sent = [&](std::string_view what, const TimeOfTokens& behind, double fixed, double linear) {
    const double spare = behind.ms_of_each - each(linear);
    const double from = spare > 0 ? std::ceil(1000 * fixed / spare) : std::numeric_limits<double>::infinity();
    const std::string words = std::isinf(from) ? "never hidden"
                              : from == 0      ? "hidden behind any number of tokens"
                                               : fmt::format("hidden from {:.0f} tokens", from);
    return TimeOfTokens{fmt::format("{}: {}", what, words), true, 1000 * fixed, each(linear), from};
  };
  const TimeOfTokens forward = computed("forward", "compute.forward_time"),
                     backward = computed("backward", "compute.backward_time"), step = computed("step", "compute.time");
  std::vector<TimeOfTokens> times = {
      forward,
      backward,
      step,
      sent("data parallel, gradients behind backward", backward, value("data_parallel.time"), 0),
      sent("parameters sharded, behind forward", forward, value("fully_sharded.forward_bytes") / value("symbol.U"), 0),
      sent("parameters sharded, behind backward", backward, value("fully_sharded.backward_bytes") / value("symbol.U"),
           0),
      sent("tensor parallel, activations in a step", step, 0, value("tensor.time")),
      sent("parameters sharded among tensor groups, in a step", step,
           value("both.parameter_bytes") / value("both.gathering_rate"),
           value("both.activation_bytes") / value("both.tensor_rate"))};
  std::erase_if(times, [](const TimeOfTokens& time) { return !(time.fixed_ms + time.ms_of_each > 0); });
  return times;
}

constexpr int kSteps = 12;  // of a curve that is no straight line

// Communication hides where its curve is below the curve of the arithmetic.
void add_hiding(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  const std::vector<TimeOfTokens> times = times_of_tokens(rows);
  const auto own = std::ranges::find_if(rows, [](const Json& row) { return text_at(row, "key") == "symbol.T"; });
  const double tokens = own == rows.end() ? 0 : number_at(*own, "value");
  if (times.empty() || !(tokens > 0)) return;
  double low = tokens, high = tokens;
  for (const TimeOfTokens& time : times) {
    if (!time.has_crossing()) continue;
    low = std::min(low, time.from);
    high = std::max(high, time.from);
  }
  low = std::exp2(std::floor(std::log2(low)) - 2);
  high = std::exp2(std::ceil(std::log2(high)) + 2);
  SvgChart chart{.title = "From how many tokens of a rank communication hides",
                 .subtitle = fmt::format("{}, {}, {:.0f} ranks of {}, context {:.0f}, by formula; hollow: what is sent",
                                         text_at(*own, "model"), text_at(*own, "dtype"), number_at(*own, "ranks"),
                                         text_at(*own, "card"), number_at(*own, "context")),
                 .x_title = "tokens of a rank",
                 .y_title = "ms",
                 .series = {}};
  for (const TimeOfTokens& time : times) {
    SvgSeries& series =
        chart.series.emplace_back(SvgSeries{.name = time.name, .points = {}, .is_dashed = time.is_sent});
    std::vector<double> xs = {low, time.has_crossing() ? time.from : tokens, high};
    if (time.fixed_ms > 0 && time.ms_of_each > 0) {  // no straight line
      xs.clear();
      for (int i = 0; i <= kSteps; ++i) xs.push_back(low * std::pow(high / low, static_cast<double>(i) / kSteps));
    }
    for (const double x : xs) series.points.emplace_back(x, time.ms(x));
  }
  add_picture(files, "calculations", svg_chart(chart));
}

}  // namespace

void add_rank_pictures(std::vector<StudyFile>& files, const StudyRows& rows) {
  add_collectives(files, rows_of(rows, StudyPart::collectives));
  add_ranks(files, rows_of(rows, StudyPart::ranks));
  add_ways(files, rows_of(rows, StudyPart::data_parallel));
  add_hiding(files, rows_of(rows, StudyPart::calculations));
}

}  // namespace ridgepoint::tables
