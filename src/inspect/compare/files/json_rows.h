// The rows of a file of JSON: an array of objects, JSON Lines, or one object.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"

namespace ridgepoint {

struct JsonRows {
  std::vector<Json> rows;
  std::optional<std::size_t> cut_off;  // the number, from 1, of a last row that is not complete
};

// A last row that ends in the middle is left out. Throws Error for anything else that is not JSON; the message begins
// with "line N" where the file has one row a line.
JsonRows parse_json_rows(std::string_view text);

}  // namespace ridgepoint
