// One HTML page with all contents of files of records, and the reader of the files. The page needs no network and no
// other file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"

namespace ridgepoint::tables {

struct ReportFile {
  std::string name;               // without its folder
  std::vector<Json> records;      // valid records, with every member that the file has
  std::vector<Json> rows;         // of `ridgepoint precision`
  std::vector<Json> traces = {};  // of `ridgepoint trace`, a device each
  Json timeline = nullptr;        // timeline_columns()
  Json steps = nullptr;           // of a training: the columns of its steps, and "returns", train::StepHistory
  // For a study: the part whose rows the file has, with its id, title and command lines. Files of one part share a
  // section of the page.
  Json part = nullptr;
  std::string caption = {};   // of the table of `rows`; empty: the usual one
  bool is_published = false;  // figures of others, shown beside those of this program
  bool is_truncated = false;  // the last line of JSON Lines ends in the middle, and was left out
};

// Throws Error for any other file, with the line or the place in the array, and for a file without rows. The history in
// a folder of checkpoints has the name of the folder.
ReportFile read_report_file(const std::filesystem::path& path);

// The columns of a timeline in CSV, one value an event each: time_ms, bytes, allocated_bytes, reserved_bytes, iteration
// (-1: before the first) and origin, an index in `origins`: the action, phase, category, op, module and source that
// events share. A timeline without times has 0. Throws Error with the line.
Json timeline_columns(std::string_view csv);

// Shortens a timeline of timeline_columns() to about `most` events. In each stretch the first, the lowest, the highest
// and the last event stay; the events between them are added up, one for each category. So all remaining levels and
// categories are exact, and no peak and no phase is lost.
Json thin_timeline(const Json& columns, std::size_t most);

// `answers` of a study are at the top of the page: objects with topic, question, sentence, evidence (part, text) and
// elsewhere (source, text, verdict, reason).
std::string report_page(std::span<const ReportFile> files, std::string_view title, const Json& answers = Json::array());

// The section for a document of `ridgepoint trace`: a table for each file that this returns.
std::vector<ReportFile> trace_section(const Json& trace, const std::string& file, std::size_t number);

// JSON as the content of a script element: no text in it can end the element or begin a comment.
std::string json_for_html(const Json& json);

}  // namespace ridgepoint::tables
