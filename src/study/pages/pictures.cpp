// The pictures of a study: training steps (sizes, warm-up, contexts, compilation, checkpointing); kernels, number types
// and peaks of memory; attention against the sequence length.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <limits>
#include <optional>

#include "inspect/published/published_rows.h"
#include "study/pages/json_table.h"
#include "study/pages/parts.h"

namespace ridgepoint::tables {
namespace {

constexpr std::array kPhases = {"forward", "loss", "recompute", "backward", "optimizer"};

std::string model_and_mode(const Json& row) {
  const std::string mode = text_at(row, "mode");
  return fmt::format("{} {}", text_at(row, "model.name"), mode == "forward_backward" ? "forward + backward" : mode);
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
                            .source = fmt::format("{} ({})", study_words(published.study), published.label)});
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
    SvgSeries series{.name = fmt::format("warm-up {}", field(row, "warmup").dump()), .points = {}};
    double iteration = 0;
    for (const char* path : {"warmup_ms", "time_ms.samples"}) {
      for (const Json& ms : field(row, path)) {
        if (ms.is_number() && ms.get<double>() > 0) series.points.emplace_back(++iteration, ms.get<double>());
      }
    }
    series.first_hollow = field(row, "warmup_ms").size();
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
                 .y_title = "median of an iteration, ms",
                 .x_unit = SvgUnit::bytes,
                 .series = curves(rows, "memory_bytes.peak_allocated", "time_ms.median",
                                  [](const Json& row) {
                                    const double blocks = number_at(row, "checkpoint_segment");
                                    return text_at(row, "checkpoint") +
                                           (blocks > 0 ? fmt::format(", segments of {:.0f}", blocks) : "");
                                  }),
                 .x_is_logarithmic = false,
                 .y_is_logarithmic = false,
                 .is_joined = false};
  add_picture(files, "checkpointing", svg_chart(trade));
}

// Kernel time by class, added up over the phases of each mode.
void add_classes(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  SvgBars chart{.title = "Kernel time by class",
                .subtitle = shared_settings(rows) + "; share of the kernel time, and its ms",
                .series = {},
                .bars = {}};
  for (const Json& row : rows)
    for (const Json* kernels : pointers(field(row, "profile.classes")))
      place_of(chart.series, text_at(*kernels, "class"));
  for (const Json& row : rows) {
    SvgBar bar{.label = fmt::format("{}, {}", text_at(row, "mode"), text_at(row, "dtype")), .parts = {}};
    bar.parts.resize(chart.series.size());
    for (const Json* kernels : pointers(field(row, "profile.classes"))) {
      const double ms = number_at(*kernels, "time_ms");
      if (ms > 0) bar.parts[place_of(chart.series, text_at(*kernels, "class"))] += ms;
    }
    chart.bars.push_back(std::move(bar));
  }
  add_picture(files, "profile_classes", svg_bars(chart));
}

// The error of every module, in forward and in the gradient of its parameters.
void add_errors(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  SvgRows chart{.title = "Relative error against double precision",
                .subtitle = "results of modules, and gradients of their parameters",
                .x_title = "||x - exact|| / ||exact||",
                .unit = SvgUnit::number,
                .series = {},
                .rows = {}};
  for (const char* what : {"forward", "gradient"}) {
    for (const Json& row : rows) {
      SvgRow shown{.label = fmt::format("{} {}", text_at(row, "module"), what)};
      for (const auto& [key, value] : row.items()) {
        if (!key.ends_with(std::string(".") + what) || !value.is_number() || value.get<double>() <= 0) continue;
        shown.marks.push_back({.series = place_of(chart.series, key.substr(0, key.find('.'))), .value = value});
      }
      if (!shown.marks.empty()) chart.rows.push_back(std::move(shown));
    }
  }
  add_picture(files, "precision_error", svg_rows(chart));
}

// The name of a model as a part of a file's name.
std::string file_word(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '_');
  return text;
}

// A picture for each model.
void add_peaks(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  std::vector<std::string> models;
  for (const Json& row : rows) place_of(models, text_at(row, "model.name"));
  for (const std::string& model : models) {
    std::vector<Json> own;
    std::ranges::copy_if(rows, std::back_inserter(own),
                         [&](const Json& row) { return text_at(row, "model.name") == model; });
    std::string file = "memory_peaks";
    if (models.size() > 1) file += "_" + file_word(model);
    add_curves(files, file,
               {.title = fmt::format("Peak memory by context length: {}", model),
                .subtitle = shared_settings(own),
                .x_title = "tokens of a sequence",
                .y_title = "peak allocated",
                .y_unit = SvgUnit::bytes,
                .series = curves(
                    own, "context", "memory_bytes.peak_allocated",
                    [](const Json& row) {
                      std::string mode = text_at(row, "mode");
                      std::ranges::replace(mode, '_', ' ');
                      return mode + ", " + text_at(row, "dtype");
                    },
                    "memory_bytes.planned_peak")});
  }
}

struct Metric {
  const char* file;
  const char* title;
  const char* path;
  const char* planned;
  SvgUnit unit;
  std::optional<double> PublishedBeside::*published;
};
constexpr std::array kMetrics = {
    Metric{"forward", "time of forward", "forward_ms.median", "", SvgUnit::milliseconds, &PublishedBeside::forward_ms},
    Metric{"backward", "time of backward", "backward_ms.median", "", SvgUnit::milliseconds,
           &PublishedBeside::backward_ms},
    Metric{"memory", "memory before backward", "memory_bytes.before_backward", "memory_bytes.planned_before_backward",
           SvgUnit::bytes, &PublishedBeside::before_backward_bytes},
    Metric{"peak", "peak memory", "memory_bytes.peak_allocated", "memory_bytes.planned_peak", SvgUnit::bytes,
           &PublishedBeside::peak_bytes}};

constexpr double kPublishedWidth = 64;  // of a head, in most published tables, and the usual one

SvgChart chart_of(const std::vector<Json>& rows, const std::string& title, const Metric& metric,
                  const NameOfRow& name) {
  return {.title = fmt::format("{}: {}", title, metric.title),
          .subtitle = shared_settings(rows),
          .x_title = "tokens of a sequence",
          .y_title = metric.unit == SvgUnit::bytes ? metric.title : "median, ms",
          .y_unit = metric.unit,
          .series = curves(rows, "context", metric.path, name, metric.planned)};
}

void add_metrics(std::vector<StudyFile>& files, const StudyRows& rows, StudyPart part, const std::string& title,
                 const NameOfRow& name_of_row) {
  const std::vector<Json>& own = rows_of(rows, part);
  for (const Metric& metric : kMetrics)
    add_curves(files, fmt::format("{}_{}", name(part), metric.file), chart_of(own, title, metric, name_of_row));
}

// One width beside the published figures of the same workload.
void add_published(std::vector<StudyFile>& files, const std::vector<Json>& all) {
  std::vector<Json> rows;
  std::ranges::copy_if(all, std::back_inserter(rows),
                       [](const Json& row) { return number_at(row, "model.d_model") == kPublishedWidth; });
  const std::vector<PublishedBeside> published = published_beside(records_of(rows));
  for (const Metric& metric : kMetrics) {
    SvgChart chart = chart_of(rows, "Attention beside published figures", metric,
                              [](const Json&) { return std::string("this study"); });
    chart.subtitle += "; hollow: published figures, also of other cards";
    for (const PublishedBeside& row : published) {
      auto series = std::ranges::find(chart.series, study_words(row.study), &SvgSeries::name);
      const std::optional<double>& value = row.*metric.published;
      if (!value && !row.is_out_of_memory) continue;
      if (series == chart.series.end())
        series =
            chart.series.insert(series, {.name = std::string(study_words(row.study)), .points = {}, .is_dashed = true});
      const double x = number_at(rows[row.record], "context");
      if (value) {
        series->points.emplace_back(x, *value);
      } else {
        series->out_of_memory.emplace_back(x, std::numeric_limits<double>::quiet_NaN());
      }
    }
    std::erase_if(chart.series, [](const SvgSeries& series) { return series.points.empty(); });
    if (chart.series.size() > 1) add_curves(files, fmt::format("attention_grid_published_{}", metric.file), chart);
  }
}

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

void add_other_pictures(std::vector<StudyFile>& files, const StudyRows& rows) {
  add_classes(files, rows_of(rows, StudyPart::profile));
  add_errors(files, rows_of(rows, StudyPart::precision_error));
  add_peaks(files, rows_of(rows, StudyPart::memory_peaks));
  add_rank_pictures(files, rows);
}

void add_attention_pictures(std::vector<StudyFile>& files, const StudyRows& rows) {
  add_metrics(files, rows, StudyPart::attention_grid, "Attention that stores its scores",
              [](const Json& row) { return fmt::format("d {}", field(row, "model.d_model").dump()); });
  add_published(files, rows_of(rows, StudyPart::attention_grid));
  const auto variant = [](const Json& row) { return text_at(row, "attention"); };
  add_metrics(files, rows, StudyPart::ladder, "Variants of attention", variant);
  // Of several widths the usual one, so that there are not too many curves.
  const std::vector<Json>& flash = rows_of(rows, StudyPart::flash);
  const auto is_usual = [](const Json& row) { return number_at(row, "model.d_model") == kPublishedWidth; };
  const bool has_usual = std::ranges::any_of(flash, is_usual);
  add_metrics(files, rows, StudyPart::flash, "Tiled attention", [&](const Json& row) {
    return has_usual && !is_usual(row) ? "" : fmt::format("{}, {}", text_at(row, "attention"), text_at(row, "dtype"));
  });
  add_metrics(files, rows, StudyPart::compiled_attention, "Attention, compiled and not",
              [](const Json& row) { return "compile " + text_at(row, "compile"); });
}

}  // namespace

std::vector<StudyFile> study_pictures(const StudyRows& rows) {
  std::vector<StudyFile> files;
  add_step_pictures(files, rows);
  add_other_pictures(files, rows);
  add_attention_pictures(files, rows);
  return files;
}

}  // namespace ridgepoint::tables
