// Records as plots: time and peak memory over the setting that takes most numbers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ridgepoint/record.h"
#include "tables/table/table.h"

namespace ridgepoint::views {

// One table for each figure that the records have, drawn in characters: median time (of a call of attention forward and
// backward), and peak memory. x is the number that varies most: sequence, context, batch, layers or another size;
// records that agree in all other settings are a series. Empty if no size has three values.
std::vector<Table> record_plots(std::span<const Record> records, std::size_t width);

}  // namespace ridgepoint::views
