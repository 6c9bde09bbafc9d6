// The calculations of a step as a page. For people: a table of symbols, and a table for each topic. Otherwise one table
// with a row for each symbol and each calculation; the configuration is in its first columns.
#pragma once

#include <span>

#include "inspect/calculations/calculations.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

Page explanation_page(std::span<const Explanation> explanations, Format format);

}  // namespace ridgepoint::tables
