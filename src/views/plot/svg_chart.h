// Curves on two logarithmic axes as an SVG picture, which any browser shows. It has its own light background.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ridgepoint::views {

struct SvgSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // above 0, by increasing x
  std::vector<double> out_of_memory;              // the x of rows that did not fit; crosses at the upper edge
};

struct SvgChart {
  enum class Unit : std::uint8_t { power_of_two, count, milliseconds, bytes };
  std::string title;
  std::string x_title, y_title;
  Unit x_unit = Unit::power_of_two, y_unit = Unit::milliseconds;
  std::vector<SvgSeries> series;
  bool is_joined = true;  // points without lines otherwise, each with its series' name
};

// Empty if there are fewer than two points.
std::string svg_chart(const SvgChart& chart);

}  // namespace ridgepoint::views
