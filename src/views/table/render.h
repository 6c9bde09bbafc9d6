// A page in its five forms: aligned text, Markdown, CSV (RFC 4180, but lines end in \n), JSON and JSON Lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/text/json.h"
#include "views/table/format.h"
#include "views/table/table.h"

namespace ridgepoint::views {

// Ready to be a file. Tables for people are at most `width` columns wide: what has no room is left out, and named at
// the end.
std::string render(Format format, const Page& page, std::size_t width = SIZE_MAX);
std::string render(Format format, const Table& table, std::size_t width = SIZE_MAX);

// What CSV and JSON Lines have of a page that goes on where another one ended: no heading.
std::string render_continued(Format format, const Page& page);

// The rows as objects, by the columns' keys.
Json to_json(const Table& table);
Json to_json(const Cell& cell);

}  // namespace ridgepoint::views
