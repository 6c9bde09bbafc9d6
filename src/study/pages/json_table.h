// Tables of JSON objects without a view of their own: the tables inside records of `profile` and `memory`, and the rows
// of `devices`, `precision` and `attention --account`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

enum class JsonKind : std::uint8_t { text, ms, us, bytes, share, count, number, sum, error };

struct JsonColumn {
  std::string path, heading;
  JsonKind kind = JsonKind::text;
};

using JsonRows = std::vector<const Json*>;
JsonRows pointers(const Json& array);  // to the objects of an array; empty for anything else
JsonRows pointers(const std::vector<Json>& rows);

// A row of the table for each row, whatever it lacks.
Table json_table(std::string caption, const JsonRows& rows, const std::vector<JsonColumn>& columns, Format format);

// The columns are the members of the rows and of their nested objects. For people, members with one value in all rows
// are in the caption of a wide table instead, after `caption`.
Table flat_table(std::string caption, const JsonRows& rows, Format format);

// The row without nesting: "copy.bytes_per_second".
Json flat_row(const Json& row);

}  // namespace ridgepoint::tables
