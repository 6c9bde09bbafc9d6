// The rows of a CSV file (RFC 4180; lines may end in \n or \r\n) as JSON objects of texts, by the names in the heading.
#pragma once

#include <string_view>
#include <vector>

#include "core/text/json.h"

namespace ridgepoint {

// Throws Error for a row with more or fewer cells than the heading, and for a quotation mark that is not closed.
std::vector<Json> parse_csv_rows(std::string_view text);

}  // namespace ridgepoint
