// Pictures of kernels, number types and peaks of memory.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "study/pages/json_table.h"
#include "study/pages/picture_parts.h"

namespace ridgepoint::views {
namespace {

// Kernel time by class, added up over the phases of each mode.
void add_classes(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  SvgBars chart{.title = "Kernel time by class",
                .subtitle = shared_settings(rows) + "; share of the kernel time, and its ms",
                .series = {},
                .bars = {}};
  for (const Json& row : rows) {
    for (const Json* kernels : pointers(member(row, "profile.classes"))) {
      const std::string name = text_at(*kernels, "class");
      if (std::ranges::find(chart.series, name) == chart.series.end()) chart.series.push_back(name);
    }
  }
  for (const Json& row : rows) {
    SvgBar bar{.label = fmt::format("{}, {}", text_at(row, "mode"), text_at(row, "dtype")), .parts = {}};
    bar.parts.resize(chart.series.size());
    for (const Json* kernels : pointers(member(row, "profile.classes"))) {
      const auto place = std::ranges::find(chart.series, text_at(*kernels, "class")) - chart.series.begin();
      const double ms = number_at(*kernels, "time_ms");
      if (ms > 0) bar.parts[static_cast<std::size_t>(place)] += ms;
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
        const std::string type = key.substr(0, key.find('.'));
        auto series = std::ranges::find(chart.series, type);
        if (series == chart.series.end()) series = chart.series.insert(series, type);
        shown.marks.push_back({.series = static_cast<std::size_t>(series - chart.series.begin()), .value = value});
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
  for (const Json& row : rows) {
    const std::string model = text_at(row, "model.name");
    if (std::ranges::find(models, model) == models.end()) models.push_back(model);
  }
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

void add_collectives(std::vector<StudyFile>& files, const std::vector<Json>& rows) {
  if (rows.empty()) return;
  add_curves(
      files, "collectives",
      {.title = "Bandwidth of collectives by size",
       .subtitle = "as a link of a ring carries it",
       .x_title = "bytes",
       .y_title = "GB/s",
       .x_unit = SvgUnit::bytes,
       .series = curves(rows, "bytes", "bus_gb_per_second", [](const Json& row) { return text_at(row, "op"); })});
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

}  // namespace

void add_other_pictures(std::vector<StudyFile>& files, const StudyRows& rows) {
  add_classes(files, rows_of(rows, StudyPart::profile));
  add_errors(files, rows_of(rows, StudyPart::precision_error));
  add_peaks(files, rows_of(rows, StudyPart::memory_peaks));
  add_collectives(files, rows_of(rows, StudyPart::collectives));
  add_ranks(files, rows_of(rows, StudyPart::ranks));
}

}  // namespace ridgepoint::views
