// A plot in characters: series of points over logarithmic axes, for a terminal.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tables/table/table.h"

namespace ridgepoint::views {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x and y, above 0, in the order of x
  std::vector<double> out_of_memory;              // x of the runs that did not fit
};

struct Plot {
  std::string title;
  std::string x_heading;
  std::string y_heading;
  std::function<std::string(double)> y_text;  // of a number on the y axis
  std::vector<PlotSeries> series;
};

// Each series has a letter; lines of dots join its points, `*` stands where letters meet, and `!` at the top edge for a
// run that was out of memory. `width` is the width of the terminal.
Table plot_table(const Plot& plot, std::size_t width);

}  // namespace ridgepoint::views
