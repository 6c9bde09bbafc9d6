// A file as `ridgepoint report` shows it. The kinds are told apart by content: JSON or JSON Lines of records, JSON of
// `ridgepoint precision`, and the CSV of `ridgepoint memory --timeline`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"

namespace ridgepoint::views {

struct ReportFile {
  std::string name;           // without its folder
  std::vector<Json> records;  // valid records, with every member that the file has
  std::vector<Json> rows;     // of `ridgepoint precision`
  Json timeline = nullptr;    // timeline_columns()
  // Of a study: the part that the file has the rows of, with its id, title and command lines. Files of a part share a
  // section of the page.
  Json part = nullptr;
  std::string caption = {};   // of the table of `rows`; empty: the usual one
  bool is_published = false;  // figures of others, shown beside those of this program
  bool is_truncated = false;  // the last line of JSON Lines ends in the middle, and was left out
};

// Throws Error, with the file and the line or the place in the array, for anything else, and for a file without rows.
ReportFile read_report_file(const std::filesystem::path& path);

// The columns of a timeline in CSV, one value an event each: time_ms, bytes, allocated_bytes, reserved_bytes, iteration
// (-1: before the first) and origin, an index in `origins`: the action, phase, category, op, module and source that
// events share. A timeline without times has 0. Throws Error with the line.
Json timeline_columns(std::string_view csv);

}  // namespace ridgepoint::views
