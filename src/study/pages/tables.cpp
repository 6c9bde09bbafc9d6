// The tables of the parts: those that the commands print, wherever a command's rows are records.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "inspect/attention/attention_tables.h"
#include "record/record_table.h"
#include "study/pages/json_table.h"
#include "study/pages/parts.h"
#include "tables/table/render.h"

namespace ridgepoint::views {
namespace {

// The measurements that say most of a part's rows; empty: the usual ones.
std::vector<std::string> columns_of(StudyPart part) {
  switch (part) {
    case StudyPart::memory_peaks:
    case StudyPart::memory_step:
    case StudyPart::memory_forward_loop:
      return {"before_backward", "peak_allocated", "peak_reserved", "peak_phase"};
    case StudyPart::attention_grid:
    case StudyPart::ladder:
    case StudyPart::flash:
    case StudyPart::compiled_attention:
      return {"forward_ms", "backward_ms", "before_backward", "peak_allocated", "peak_reserved", "timing"};
    case StudyPart::checkpointing:
      return {"median", "phase_ms.recompute", "before_backward", "peak_allocated", "recomputed_flops", "timing"};
    case StudyPart::ranks:
      return {"slowest_rank", "alone", "efficiency", "hidden", "peak_allocated", "timing"};
    default:
      return {};
  }
}

// Tables with a row for each sequence and width, and a column for each value of a setting.
void add_pivots(Page& page, StudyPart part, const std::vector<Record>& records) {
  const bool is_ladder = part == StudyPart::ladder;
  if (!is_ladder && part != StudyPart::attention_grid) return;
  const PivotOptions options{.column = is_ladder ? "attention" : "d_model", .baseline = ""};
  for (Table& table : pivot_page(records, options, Format::markdown).tables) page.tables.push_back(std::move(table));
}

Page record_tables(StudyPart part, const std::vector<Json>& rows) {
  const std::vector<Record> records = records_of(rows);
  Page page = records_page(records, Format::markdown, columns_of(part));
  add_pivots(page, part, records);
  std::vector<Table> more;
  if (part == StudyPart::profile) more = profile_tables(rows);
  if (part == StudyPart::memory_step || part == StudyPart::memory_forward_loop) more = memory_tables(rows);
  std::ranges::move(more, std::back_inserter(page.tables));
  return page;
}

Page row_tables(const StudyDocument& document, const StudyPartPlan& part) {
  Page page;
  for (const StudyRowGroup& group : shown_rows(document, part))
    page.tables.push_back(flat_table(group.caption, pointers(group.rows), Format::markdown));
  return page;
}

// A column says which command line printed a row, where there are several.
Page csv_page(const StudyDocument& document, const StudyPartPlan& part) {
  const std::vector<Json>& rows = document.rows.at(part.part);
  if (has_records(rows)) return records_page(records_of(rows), Format::csv);
  std::vector<Json> shown;
  for (const StudyRowGroup& group : shown_rows(document, part)) {
    for (const Json& row : group.rows) {
      Json& line = shown.emplace_back(Json::object());
      if (part.commands.size() > 1) line["command"] = group.caption;
      line.update(row);
    }
  }
  return {.tables = {flat_table("", pointers(shown), Format::csv)}};
}

}  // namespace

bool has_records(const std::vector<Json>& rows) { return !rows.empty() && rows.front().contains("schema"); }

std::vector<Record> records_of(const std::vector<Json>& rows) {
  std::vector<Record> records;
  for (const Json& row : rows) records.push_back(record_from_json(dump_json(row)));
  return records;
}

std::vector<std::string> pictures_of(const StudyDocument& document, StudyPart part,
                                     const std::vector<StudyFile>& pictures) {
  const std::string prefix = fmt::format("pictures/{}", name(part));
  std::vector<std::string> names;
  for (const StudyFile& picture : pictures) {
    if (picture.name.starts_with(prefix + "_") || picture.name == prefix + ".svg") names.push_back(picture.name);
  }
  const bool is_written = std::ranges::find(names, prefix + ".svg") != names.end();
  if (!is_written && StudyFolder(document.folder).has(prefix + ".svg")) names.push_back(prefix + ".svg");
  return names;
}

std::vector<StudyFile> study_tables(const StudyDocument& document, const StudyPartPlan& part,
                                    const std::vector<StudyFile>& pictures) {
  const std::vector<Json>& rows = document.rows.at(part.part);
  const Page page = has_records(rows) ? record_tables(part.part, rows) : row_tables(document, part);
  std::string text = fmt::format("# {}\n\n", part.title);
  for (const StudyCommand& command : part.commands)
    text += fmt::format("    {}\n", command_text(command, document.folder));
  text += "\n" + render(Format::markdown, page);
  for (const std::string& picture : pictures_of(document, part.part, pictures))
    text += fmt::format("\n![{0}](../{1})\n", part.title, picture);
  return {{fmt::format("tables/{}.md", name(part.part)), std::move(text)},
          {fmt::format("tables/{}.csv", name(part.part)), render(Format::csv, csv_page(document, part))}};
}

}  // namespace ridgepoint::views
