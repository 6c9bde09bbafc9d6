// Prints a page as aligned text, Markdown, CSV (RFC 4180, but lines end in \n), JSON or JSON Lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
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
inline Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
// What `of` makes of each element.
template <typename Range, typename Of>
Json json_list(const Range& range, const Of& of) {
  Json list = Json::array();
  for (const auto& each : range) list.push_back(of(each));
  return list;
}

// Columns whose keys are their headings, too.
template <typename Keys>
void append_columns(Table& table, const Keys& keys) {
  for (const auto& key : keys) table.columns.push_back({std::string(key), std::string(key)});
}
inline Table with_columns(std::initializer_list<const char*> keys) {
  Table table;
  append_columns(table, keys);
  return table;
}

}  // namespace ridgepoint::tables
