// The calculations of a step as a page: for people a table of symbols and a table a topic; else one table with a row a
// symbol and a row a calculation, each with the configuration in its first columns.
#pragma once

#include <span>

#include "inspect/calculations/calculations.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

Page explanation_page(std::span<const Explanation> explanations, Format format);

}  // namespace ridgepoint::tables
