#include "inspect/compare/files/record_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/files/file.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "inspect/compare/files/foreign_records.h"

namespace ridgepoint {
namespace {

struct JsonRows {
  std::vector<Json> rows;
  std::optional<std::size_t> cut_off;  // the number, from 1, of a last row that is not complete
};

// The rows of a document that is complete.
std::optional<std::vector<Json>> parse_whole(std::string_view text) {
  try {
    Json document = parse_json(text);
    if (document.is_array()) return std::vector<Json>(document.begin(), document.end());
    return std::vector<Json>{std::move(document)};
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

// Without the brackets and commas of an array that has one row a line.
std::string_view row_of_line(std::string_view line, bool is_array) {
  line = trimmed(line);
  if (!is_array) return line;
  if (line.starts_with('[')) line = trimmed(line.substr(1));
  if (line.ends_with(',')) line = trimmed(line.substr(0, line.size() - 1));
  return line == "]" ? std::string_view() : line;
}

// A last row that ends in the middle is left out. Throws Error for anything else that is not JSON; the message begins
// with "line N" where the file has one row a line.
JsonRows parse_json_rows(std::string_view text) {
  if (std::optional<std::vector<Json>> rows = parse_whole(text)) return {std::move(*rows), std::nullopt};
  const bool is_array = trimmed(text).starts_with('[');
  JsonRows found;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = row_of_line(text.substr(begin, end - begin), is_array);
    begin = end + 1;
    ++line_number;
    if (line.empty()) continue;
    const bool is_last = begin >= text.size() || trimmed(text.substr(begin)).empty();
    try {
      found.rows.push_back(parse_json(line, fmt::format("line {}", line_number)));
    } catch (const JsonError& error) {
      if (!error.is_cut_off()) throw;
      if (!is_last) throw_error("line {} is not JSON: it ends in the middle", line_number);
      found.cut_off = found.rows.size() + 1;
    }
  }
  return found;
}

// A larger file is refused instead of being read into memory; no sweep writes one.
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 30;

// Whether the text is JSON whose first row has a schema; CSV begins with neither bracket.
bool holds_records(const JsonRows& rows) {
  return !rows.rows.empty() && rows.rows.front().is_object() && rows.rows.front().contains("schema");
}

void require_schema(const Json& row) {
  if (row.is_object() && row.contains("schema")) return;
  throw Error("it has no 'schema', so it is not a record of Ridgepoint; remove it, or give --mapping for the file");
}

std::vector<Record> decode(const JsonRows& rows) {
  std::vector<Record> records;
  for (const Json& row : rows.rows) {
    try {
      require_schema(row);
      records.push_back(record_from_json(dump_json(row)));
    } catch (const Error& error) {
      throw_error("row {}: {}", records.size() + 1, error.what());
    }
  }
  return records;
}

std::string warning_of(const std::string& path, const JsonRows& rows) {
  const std::size_t finished = rows.rows.size();
  return fmt::format("'{}' ends in the middle of row {}; the {} finished row{} before it {} used", path, *rows.cut_off,
                     finished, finished == 1 ? "" : "s", finished == 1 ? "is" : "are");
}

RecordFile read(const std::string& path, std::string_view text, const std::string& mapping_path) {
  RecordFile file{path, {}, std::nullopt, {}};
  const std::string_view start = trimmed(text);
  if (start.empty()) throw Error("it is empty; write one with ridgepoint bench --output FILE.jsonl");
  const bool is_json = start.starts_with('{') || start.starts_with('[');
  JsonRows rows;
  if (is_json) rows = parse_json_rows(text);
  if (rows.cut_off) {
    if (rows.rows.empty()) throw Error("its only row is cut off, so it has no finished row; measure again");
    file.warnings.push_back(warning_of(path, rows));
  }
  if (holds_records(rows)) {
    file.records = decode(rows);
    return file;
  }
  if (!rows.rows.empty() && train::is_step(rows.rows.front())) {
    file.history = train::step_history(rows.rows);
    return file;
  }
  if (mapping_path.empty()) {
    throw Error(
        "it holds neither records of Ridgepoint nor steps of a training; give a file that ridgepoint bench or train "
        "wrote as json or jsonl, or say with --mapping FILE which of its columns are which fields");
  }
  const Mapping mapping = read_mapping(mapping_path);
  file.records = is_json ? map_json(rows.rows, mapping) : map_csv(text, mapping);
  file.known_fields = mapping.fields();
  return file;
}

}  // namespace

RecordFile read_record_file(const std::string& path, const std::string& mapping_path) {
  const std::filesystem::path in_folder = train::History::path_in(path);
  const std::string text = read_file(std::filesystem::exists(in_folder) ? in_folder.string() : path, kMostFileBytes);
  try {
    return read(path, without_byte_order_mark(text), mapping_path);
  } catch (const Error& error) {
    throw_error("cannot compare '{}': {}", path, error.what());
  }
}

}  // namespace ridgepoint
