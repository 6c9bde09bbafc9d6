// Records as plots: time and peak memory over the setting that takes most numbers.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ridgepoint/record/record.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

// A plot in characters: series of points over logarithmic axes, for a terminal.
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

// Each series has a letter, and dots join its points. `*` marks points of several series, `!` at the top edge a run
// that was out of memory. `width` is the width of the terminal.
Table plot_table(const Plot& plot, std::size_t width);

// Draws a plot in characters for each figure of the records: median time (for an attention call, forward and backward),
// and peak memory. x is the size with the most values: sequence, context, batch, layers or another. Records that agree
// in all other settings are a series. Empty if no size has three values.
std::vector<Table> record_plots(std::span<const Record> records, std::size_t width);

}  // namespace ridgepoint::tables
