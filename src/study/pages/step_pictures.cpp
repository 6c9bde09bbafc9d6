// Pictures of training steps: sizes, warm-up, contexts, compilation and checkpointing.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "study/pages/json_table.h"
#include "study/pages/parts.h"
#include "study/pages/picture_parts.h"
#include "study/pages/published_beside.h"

namespace ridgepoint::views {
namespace {

constexpr std::array kPhases = {"forward", "loss", "recompute", "backward", "optimizer"};

std::string model_and_mode(const Json& row) {
  const std::string mode = text_at(row, "mode");
  return fmt::format("{} {}", text_at(row, "model.name"), mode == "backward" ? "forward + backward" : mode);
}
std::string dtype(const Json& row) { return text_at(row, "dtype"); }

void add_sizes(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  SvgRows chart = marks(rows, "time_ms", model_and_mode, dtype);
  const std::vector<Record> records = records_of(rows);
  bool has_published = false;
  for (const PublishedBeside& published : published_beside(records)) {
    const Json& row = rows[published.record];
    const auto place = std::ranges::find(chart.rows, model_and_mode(row), &SvgRow::label);
    const auto series = std::ranges::find(chart.series, dtype(row));
    if (!published.time_ms || place == chart.rows.end() || series == chart.series.end()) continue;
    place->marks.push_back({.series = static_cast<std::size_t>(series - chart.series.begin()),
                            .value = *published.time_ms,
                            .source = fmt::format("{} ({})", published.study, published.label)});
    has_published = true;
  }
  chart.title = "Time of an iteration by size and number type";
  chart.subtitle = shared_settings(rows) + "; median and range";
  if (has_published) chart.subtitle += "; hollow: published figures, also of other cards";
  chart.x_title = "ms";
  add_picture(files, "sizes_time", svg_rows(chart));
}

// What each step is made of.
void add_phases(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  SvgBars chart{.title = "The phases of a training step",
                .subtitle = shared_settings(rows) + "; share of the step, and its ms",
                .series = {kPhases.begin(), kPhases.end()},
                .bars = {}};
  for (const Json& row : rows) {
    if (text_at(row, "mode") != "step" || text_at(row, "status") != "ok") continue;
    SvgBar bar{.label = fmt::format("{}, {}", text_at(row, "model.name"), dtype(row)), .parts = {}};
    for (const char* phase : kPhases) {
      const double ms = number_at(row, fmt::format("phase_ms.{}", phase));
      bar.parts.push_back(ms > 0 ? ms : 0);
    }
    chart.bars.push_back(std::move(bar));
  }
  add_picture(files, "sizes_phases", svg_bars(chart));
}

// Every iteration of a process, the warm-up first.
void add_warmup(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  SvgChart chart{.title = "The first iterations of a process, by warm-up",
                 .subtitle = shared_settings(rows) + "; hollow: warm-up, not part of the statistics",
                 .x_title = "iteration",
                 .y_title = "ms",
                 .series = {},
                 .x_is_logarithmic = false};
  for (const Json& row : rows) {
    SvgSeries series{.name = fmt::format("warm-up {}", member(row, "warmup").dump()), .points = {}};
    double iteration = 0;
    for (const char* path : {"warmup_ms", "time_ms.samples"}) {
      for (const Json& ms : member(row, path)) {
        if (ms.is_number() && ms.get<double>() > 0) series.points.emplace_back(++iteration, ms.get<double>());
      }
    }
    series.first_hollow = member(row, "warmup_ms").size();
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  add_picture(files, "warmup", svg_chart(chart));
}

void add_contexts(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  const auto mode = [](const Json& row) { return text_at(row, "mode") + ", " + dtype(row); };
  SvgChart chart{.title = "Time of an iteration by context length",
                 .subtitle = shared_settings(rows),
                 .x_title = "tokens of a sequence",
                 .y_title = "median, ms",
                 .series = curves(rows, "context", "time_ms.median", mode)};
  add_curves(files, "contexts_time", chart);
  chart.title = "Peak memory of an iteration by context length";
  chart.y_title = "peak allocated";
  chart.y_unit = SvgUnit::bytes;
  chart.series = curves(rows, "context", "memory_bytes.peak_allocated", mode, "memory_bytes.planned_peak");
  add_curves(files, "contexts_memory", chart);
}

void add_checkpointing(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  SvgChart trade{.title = "Checkpoint policies: memory against time",
                 .subtitle = shared_settings(rows),
                 .x_title = "peak allocated",
                 .y_title = "median of a step, ms",
                 .x_unit = SvgUnit::bytes,
                 .series = curves(rows, "memory_bytes.peak_allocated", "time_ms.median",
                                  [](const Json& row) { return text_at(row, "checkpoint"); }),
                 .x_is_logarithmic = false,
                 .y_is_logarithmic = false,
                 .is_joined = false};
  add_picture(files, "checkpointing", svg_chart(trade));
}

}  // namespace

void add_step_pictures(std::vector<StudyFile>& files, const StudyRows& rows) {
  if (const auto& sizes = rows_of(rows, StudyPart::sizes); !sizes.empty()) {
    add_sizes(files, sizes);
    add_phases(files, sizes);
  }
  if (const auto& warmup = rows_of(rows, StudyPart::warmup); !warmup.empty()) add_warmup(files, warmup);
  add_contexts(files, rows_of(rows, StudyPart::contexts));
  const auto& compiled = rows_of(rows, StudyPart::compiled_model);
  SvgRows chart =
      marks(compiled, "time_ms", model_and_mode, [](const Json& row) { return "compile " + text_at(row, "compile"); });
  chart.title = "Whole models, compiled and not";
  chart.subtitle = shared_settings(compiled) + "; median and range";
  chart.x_title = "ms";
  add_picture(files, "compiled_model", svg_rows(chart));
  if (const auto& policies = rows_of(rows, StudyPart::checkpointing); !policies.empty())
    add_checkpointing(files, policies);
}

}  // namespace ridgepoint::views
