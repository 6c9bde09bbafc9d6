// Named rows with marks on one axis, or with stacked bars, as SVG pictures.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tables/plot/svg_axis.h"

namespace ridgepoint::views {

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

// Each bar is as long as the others: its parts are shares of its sum, which stands beside it.
struct SvgBars {
  std::string title, subtitle;
  SvgUnit unit = SvgUnit::milliseconds;
  std::vector<std::string> series;
  std::vector<SvgBar> bars;
};

// Empty if no bar has a part.
std::string svg_bars(const SvgBars& bars);

}  // namespace ridgepoint::views
