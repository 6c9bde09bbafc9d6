// The tables of the parts: those that the commands print, wherever a command's rows are records.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "core/units.h"
#include "views/attention_tables.h"
#include "views/record_table.h"
#include "views/study/json_table.h"
#include "views/study/parts.h"
#include "views/table/render.h"

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

// The devices that can run, one a row, and why others cannot.
Page device_tables(const std::vector<Json>& rows) {
  Page page;
  std::vector<Json> usable;
  std::string others;
  for (const Json& row : rows) {
    if (const std::string problem = text_at(row, "problem"); !problem.empty())
      others += fmt::format("{}{}: {}.", others.empty() ? "" : " ", text_at(row, "kind"), problem);
    if (!row.contains("total_memory_bytes")) continue;
    Json shown = {{"device", row.value("kind", "")},
                  {"name", row.value("name", "")},
                  {"memory", format_bytes(row.value("total_memory_bytes", std::uint64_t{0}))}};
    if (const double copy = number_at(row, "copy.bytes_per_second"); copy > 0)
      shown["copy"] = format_count(copy) + "B/s";
    for (const Json* rate : pointers(member(row, "matmul")))
      shown["matmul " + text_at(*rate, "dtype")] = format_count(number_at(*rate, "flops_per_second")) + "flop/s";
    usable.push_back(std::move(shown));
  }
  JsonRows pointers_to_usable;
  for (const Json& row : usable) pointers_to_usable.push_back(&row);
  page.tables.push_back(flat_table("", pointers_to_usable, Format::markdown));
  page.tables.back().note = others;
  return page;
}

// The rows of an account belong to a variant and a moment each.
std::vector<StudyRowGroup> by_moment(const std::vector<StudyRowGroup>& groups) {
  std::vector<StudyRowGroup> split;
  std::string last;
  for (const StudyRowGroup& group : groups) {
    for (const Json* row : group.rows) {
      const std::string key = text_at(*row, "attention") + "\n" + text_at(*row, "moment");
      if (split.empty() || key != last) split.push_back({"", {}});
      split.back().rows.push_back(row);
      last = key;
    }
  }
  return split;
}

Page row_tables(const StudyDocument& document, const StudyPartPlan& part) {
  std::vector<StudyRowGroup> groups = row_groups(document, part);
  const bool has_several = groups.size() > 1;
  if (part.part == StudyPart::accounting) groups = by_moment(groups);
  Page page;
  for (const StudyRowGroup& group : groups)
    page.tables.push_back(flat_table(has_several ? group.command : "", group.rows, Format::markdown));
  return page;
}

Page csv_page(const StudyDocument& document, const StudyPartPlan& part) {
  const std::vector<Json>& rows = document.rows.at(part.part);
  if (has_records(rows)) return records_page(records_of(rows), Format::csv);
  std::vector<Json> shown;
  for (const StudyRowGroup& group : row_groups(document, part)) {
    for (const Json* row : group.rows) {
      Json flat = part.commands.size() > 1 ? Json{{"command", group.command}} : Json::object();
      flat.update(flat_row(*row));
      for (const Json* rate : pointers(member(*row, "matmul")))
        flat[fmt::format("matmul.{}.flops_per_second", text_at(*rate, "dtype"))] = member(*rate, "flops_per_second");
      shown.push_back(std::move(flat));
    }
  }
  JsonRows all;
  for (const Json& row : shown) all.push_back(&row);
  return {.tables = {flat_table("", all, Format::csv)}};
}

}  // namespace

bool has_records(const std::vector<Json>& rows) { return !rows.empty() && rows.front().contains("schema"); }

std::vector<Record> records_of(const std::vector<Json>& rows) {
  std::vector<Record> records;
  for (const Json& row : rows) records.push_back(record_from_json(dump_json(row)));
  return records;
}

std::vector<StudyRowGroup> row_groups(const StudyDocument& document, const StudyPartPlan& part) {
  const std::vector<Json>& rows = document.rows.at(part.part);
  std::vector<StudyRowGroup> groups;
  std::size_t taken = 0;
  for (const StudyLogEntry& entry : document.log) {
    if (entry.part != part.part || entry.command >= part.commands.size()) continue;
    const auto count = static_cast<std::size_t>(std::max(entry.rows, std::int64_t{0}));
    if (taken + count > rows.size()) break;
    groups.push_back({command_text(part.commands[entry.command], document.folder), {}});
    for (std::size_t i = 0; i < count; ++i) groups.back().rows.push_back(&rows[taken + i]);
    taken += count;
  }
  std::erase_if(groups, [](const StudyRowGroup& group) { return group.rows.empty(); });
  if (taken == rows.size()) return groups;
  StudyRowGroup all;  // of a study that was stopped between a row and the end of its command line
  for (const Json& row : rows) all.rows.push_back(&row);
  return {all};
}

std::vector<std::string> pictures_of(const StudyDocument& document, StudyPart part,
                                     const std::vector<StudyFile>& pictures) {
  const std::string prefix = fmt::format("pictures/{}", name(part));
  std::vector<std::string> names;
  for (const StudyFile& picture : pictures) {
    if (picture.name.starts_with(prefix + "_") || picture.name == prefix + ".svg") names.push_back(picture.name);
  }
  const bool is_written = std::ranges::find(names, prefix + ".svg") != names.end();
  if (!is_written && std::filesystem::exists(std::filesystem::path(document.folder) / (prefix + ".svg")))
    names.push_back(prefix + ".svg");
  return names;
}

std::vector<StudyFile> study_tables(const StudyDocument& document, const StudyPartPlan& part,
                                    const std::vector<StudyFile>& pictures) {
  const std::vector<Json>& rows = document.rows.at(part.part);
  const Page page = has_records(rows)                 ? record_tables(part.part, rows)
                    : part.part == StudyPart::devices ? device_tables(rows)
                                                      : row_tables(document, part);
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
