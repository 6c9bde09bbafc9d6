// Curves and points on two axes as an SVG picture.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tables/plot/svg_axis.h"

namespace ridgepoint::views {

struct SvgSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by increasing x; on logarithmic axes above 0
  // Crosses for the rows that did not fit: where they were planned to be, or above the plot where y is NaN.
  std::vector<std::pair<double, double>> out_of_memory = {};
  bool is_published = false;                                    // hollow marks on a dashed line
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

}  // namespace ridgepoint::views
