// Records as CSV (RFC 4180, but lines end in \n): one row a record, one column a field under its JSON name with dots
// (model.d_model). Samples share a cell, separated by semicolons; what is not known is an empty cell.
#pragma once

#include <span>
#include <string>

#include "ridgepoint/record.h"

namespace ridgepoint {

std::string csv_heading();
std::string csv_row(const Record& record);

}  // namespace ridgepoint
