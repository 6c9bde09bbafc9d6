// Pictures in SVG: curves and points on two axes, named rows with marks on one axis, and stacked bars.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tables/plot/svg_canvas.h"

namespace ridgepoint::tables {

struct SvgSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by increasing x; on logarithmic axes above 0
  // Crosses for the rows that did not fit: where they were planned to be, or above the plot where y is NaN.
  std::vector<std::pair<double, double>> out_of_memory = {};
  bool is_dashed = false;  // hollow marks on a dashed line: published, or of something else than the other curves
  std::size_t style = std::numeric_limits<std::size_t>::max();  // of colour and shape; the usual: its place
  std::size_t first_hollow = 0;  // so many points at the beginning have hollow marks: warm-up
};

struct SvgChart {
  std::string title, subtitle;
  std::string x_title, y_title;
  SvgUnit x_unit = SvgUnit::number, y_unit = SvgUnit::milliseconds;
  std::vector<SvgSeries> series;
  bool x_is_logarithmic = true, y_is_logarithmic = true;
  bool is_joined = true;  // points without lines otherwise, each with its series' name beside it
};

// Empty if there are fewer than two points.
std::string svg_chart(const SvgChart& chart);

struct SvgRowMark {
  std::size_t series = 0;  // an index of SvgRows::series
  double value = 0;        // NaN: none; `source` says why, in the column of the series
  // The range of the samples; NaN: not known.
  double low = std::numeric_limits<double>::quiet_NaN(), high = std::numeric_limits<double>::quiet_NaN();
  std::string source = {};  // of a published value, which has a hollow mark
};

struct SvgRow {
  std::string label;
  std::vector<SvgRowMark> marks = {};
  std::string remark = {};  // stands where the marks would: "out of memory"
};

// Marks on a logarithmic axis. The values of each series stand in a column beside the plot.
struct SvgRows {
  std::string title, subtitle;
  std::string x_title;
  SvgUnit unit = SvgUnit::milliseconds;
  std::vector<std::string> series;
  std::vector<SvgRow> rows;
};

// Empty without a mark.
std::string svg_rows(const SvgRows& rows);

struct SvgBar {
  std::string label;
  std::vector<double> parts;  // one for each series; 0 where there is none
};

// The sum of a bar stands beside it. Each bar is as long as the others, its parts are shares; with a name of the axis
// its length is its sum.
struct SvgBars {
  std::string title, subtitle;
  std::string x_title = {};
  SvgUnit unit = SvgUnit::milliseconds;
  std::vector<std::string> series;
  std::vector<SvgBar> bars;
};

// Empty if no bar has a part.
std::string svg_bars(const SvgBars& bars);

}  // namespace ridgepoint::tables
