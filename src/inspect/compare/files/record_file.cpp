#include "inspect/compare/files/record_file.h"

#include <fmt/format.h>

#include "core/files/file.h"
#include "core/text/text.h"
#include "inspect/compare/files/foreign_records.h"
#include "inspect/compare/files/json_rows.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

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
      throw Error(fmt::format("row {}: {}", records.size() + 1, error.what()));
    }
  }
  return records;
}

std::string warning_of(const std::string& path, const JsonRows& rows) {
  const std::size_t finished = rows.rows.size();
  return fmt::format("'{}' ends in the middle of row {}; the {} finished row{} before it {} used", path, *rows.cut_off,
                     finished, finished == 1 ? "" : "s", finished == 1 ? "is" : "are");
}

RecordFile read(const std::string& path, const std::string& text, const std::string& mapping_path) {
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
  if (mapping_path.empty()) {
    throw Error(
        "it holds no records of Ridgepoint; give a file that ridgepoint bench wrote as json or jsonl, or say with "
        "--mapping FILE which of its columns are which fields");
  }
  const Mapping mapping = read_mapping(mapping_path);
  file.records = is_json ? map_json(rows.rows, mapping) : map_csv(text, mapping);
  file.known_fields = mapping.fields();
  return file;
}

}  // namespace

RecordFile read_record_file(const std::string& path, const std::string& mapping_path) {
  const std::string text = read_file(path, kMostFileBytes);
  try {
    return read(path, text, mapping_path);
  } catch (const Error& error) {
    throw Error(fmt::format("cannot compare '{}': {}", path, error.what()));
  }
}

}  // namespace ridgepoint
