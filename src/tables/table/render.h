// Prints a page as aligned text, Markdown, CSV (RFC 4180, but lines end in \n), JSON or JSON Lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/text/json.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

// The complete text of a file. Aligned text is at most `width` columns wide: columns that do not fit are omitted and
// named at the end.
std::string render(Format format, const Page& page, std::size_t width = SIZE_MAX);

// CSV without its heading, or JSON Lines, for a page that continues another one.
std::string render_continued(Format format, const Page& page);

// The rows as objects with the keys of the columns.
Json to_json(const Table& table);
Json to_json(const Cell& cell);

}  // namespace ridgepoint::tables
