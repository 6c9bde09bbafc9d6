// The tables of the parts: a command whose rows are records has the tables that it prints, and the tables inside the
// records of `profile` and `memory`; the rows of `devices`, `precision` and `attention --account` stand in groups.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/text/units.h"
#include "inspect/attention/attention_tables.h"
#include "record/record_table.h"
#include "study/pages/json_table.h"
#include "study/pages/parts.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

// The measurements that say most of a part's rows; empty: the usual ones.
std::vector<std::string> columns_of(StudyPart part) {
  switch (part) {
    case StudyPart::memory_peaks:
    case StudyPart::memory_step:
    case StudyPart::memory_forward_loop: return {"before_backward", "peak_allocated", "peak_reserved", "peak_phase"};
    case StudyPart::attention_grid:
    case StudyPart::ladder:
    case StudyPart::flash:
    case StudyPart::compiled_attention:
      return {"forward_ms", "backward_ms", "before_backward", "peak_allocated", "peak_reserved", "timing"};
    case StudyPart::checkpointing:
      return {"median", "phase_ms.recompute", "before_backward", "peak_allocated", "recomputed_flops", "timing"};
    case StudyPart::ranks:
    case StudyPart::data_parallel: {
      std::vector<std::string> columns = {"sharded"};
      if (part == StudyPart::data_parallel) columns = {"overlap", "buckets"};
      for (const char* column : {"slowest_rank", "alone", "efficiency", "communication", "hidden", "predicted_ms",
                                 "predicted_communication", "predicted_exposed", "peak_allocated", "timing"})
        columns.emplace_back(column);
      return columns;
    }
    default: return {};
  }
}

// Tables with a row for each sequence and width, and a column for each value of a setting.
void add_pivots(Page& page, StudyPart part, const std::vector<Record>& records) {
  const bool is_ladder = part == StudyPart::ladder;
  if (!is_ladder && part != StudyPart::attention_grid) return;
  const PivotOptions options{.column = is_ladder ? "attention" : "d_model", .baseline = ""};
  for (Table& table : pivot_page(records, options, Format::markdown).tables) page.tables.push_back(std::move(table));
}

using Kind = JsonKind;

const std::vector<JsonColumn> kWork = {{"calls", "calls", Kind::number},
                                       {"time_ms", "ms", Kind::ms},
                                       {"share_of_kernel_time", "time", Kind::share},
                                       {"flops", "flop", Kind::count},
                                       {"share_of_flops", "of flop", Kind::share}};
constexpr std::size_t kMostRows = 15;

std::vector<JsonColumn> with_work(std::vector<JsonColumn> columns) {
  columns.insert(columns.end(), kWork.begin(), kWork.end());
  return columns;
}

// The largest come first in records.
JsonRows first_of(JsonRows rows) {
  rows.resize(std::min(rows.size(), kMostRows));
  return rows;
}

std::string captioned(const Json& row, std::string_view what) {
  return fmt::format("{}, {} x {}, {}, {}: {}", text_at(row, "model.name"), field(row, "batch").dump(),
                     field(row, "context").dump(), text_at(row, "mode"), text_at(row, "dtype"), what);
}

// One record of `profile`.
void add_profile(std::vector<Table>& tables, const Json& row) {
  const auto add = [&](std::string_view what, const char* path, const std::vector<JsonColumn>& columns) {
    const JsonRows rows = pointers(field(row, path));
    if (!rows.empty()) tables.push_back(json_table(captioned(row, what), first_of(rows), columns, Format::markdown));
  };
  add("kernels", "profile.kernels", with_work({{"name", "kernel"}}));
  add("phases and classes", "profile.classes", with_work({{"phase", "phase"}, {"class", "class"}}));
  add("inside attention", "profile.attention", with_work({{"phase", "phase"}, {"part", "range"}}));
  add("idle time", "profile.idle",
      {{"cause", "cause"},
       {"time_ms", "ms", Kind::ms},
       {"share_of_wall_time", "of wall time", Kind::share},
       {"gaps", "gaps", Kind::number},
       {"longest_us", "longest us", Kind::us}});
  add("time above the floor", "profile.recoverable",
      {{"phase", "phase"},
       {"what", "what"},
       {"kernel", "kernel"},
       {"time_ms", "ms", Kind::ms},
       {"floor_ms", "floor ms", Kind::ms},
       {"share_of_ceiling", "of ceiling", Kind::share},
       {"bound_by", "bound by"},
       {"recoverable_ms", "recoverable ms", Kind::ms}});
}

std::string sawtooth_of(const Json& row) {
  const Json& sawtooth = field(row, "memory.sawtooth");
  if (!sawtooth.is_object()) return "";
  std::string verdict = text_at(sawtooth, "verdict");
  std::ranges::replace(verdict, '_', ' ');
  const std::string height = format_byte_count(number_at(sawtooth, "height_bytes"));
  const std::string cycles = field(sawtooth, "cycles").dump();
  if (verdict == "unknown") return fmt::format("Memory rises and falls by {}, {} times.", height, cycles);
  return fmt::format("Memory rises by {} in {} ms and falls in {} ms, {} times: {}.", height,
                     format_ms(number_at(sawtooth, "rise_ms")), format_ms(number_at(sawtooth, "fall_ms")), cycles,
                     verdict);
}

// The devices that can run, with their rates, and why others cannot.
std::vector<StudyRowGroup> devices(const std::vector<Json>& rows) {
  std::vector<StudyRowGroup> groups(2);
  groups[1].caption = "Devices that cannot be used";
  for (const Json& row : rows) {
    if (const std::string problem = text_at(row, "problem"); !problem.empty())
      groups[1].rows.push_back({{"device", text_at(row, "kind")}, {"problem", problem}});
    const double memory = number_at(row, "total_memory_bytes");
    if (!(memory > 0)) continue;
    Json shown = {
        {"device", text_at(row, "kind")}, {"name", text_at(row, "name")}, {"memory", format_byte_count(memory)}};
    if (const double copy = number_at(row, "copy.bytes_per_second"); copy > 0)
      shown["copy"] = format_count(copy) + "B/s";
    for (const Json* rate : pointers(field(row, "matmul")))
      shown["matmul " + text_at(*rate, "dtype")] = format_count(number_at(*rate, "flops_per_second")) + "flop/s";
    groups[0].rows.push_back(std::move(shown));
  }
  std::erase_if(groups, [](const StudyRowGroup& group) { return group.rows.empty(); });
  return groups;
}

// The rows of an account belong to a variant, a length and a moment each.
std::vector<StudyRowGroup> by_moment(const std::vector<Json>& rows) {
  std::vector<StudyRowGroup> groups;
  for (const Json& row : rows) {
    const std::string caption = fmt::format("{}, {} tokens, {}", text_at(row, "attention"),
                                            field(row, "sequence").dump(), text_at(row, "moment"));
    if (groups.empty() || groups.back().caption != caption) groups.push_back({caption, {}});
    Json shown = flat_row(row);
    shown.erase("attention");
    shown.erase("moment");
    groups.back().rows.push_back(std::move(shown));
  }
  return groups;
}

// The rows of calculations by topic, the part of their key before the dot.
std::vector<StudyRowGroup> by_topic(const std::vector<Json>& rows) {
  std::vector<StudyRowGroup> groups;
  for (const Json& row : rows) {
    const std::string key = text_at(row, "key");
    std::string caption = fmt::format("{}: {}", text_at(row, "model"), key.substr(0, key.find('.')));
    std::ranges::replace(caption, '_', ' ');
    if (groups.empty() || groups.back().caption != caption) groups.push_back({std::move(caption), {}});
    Json shown = Json::object();
    for (const char* column : {"key", "symbol", "what", "formula", "figures", "value", "unit", "planned"})
      shown[column] = field(row, column);
    groups.back().rows.push_back(std::move(shown));
  }
  return groups;
}

std::vector<Table> profile_tables(const std::vector<Json>& rows) {
  std::vector<Table> tables;
  for (const Json& row : rows) {
    const std::size_t first = tables.size();
    add_profile(tables, row);
    std::vector<std::string> verdict;
    for (const Json& sentence : field(row, "profile.verdict")) {
      if (sentence.is_string()) verdict.push_back(sentence.get<std::string>());
    }
    if (first < tables.size()) tables[first].note = fmt::format("{}", fmt::join(verdict, " "));
  }
  return tables;
}

std::vector<Table> memory_tables(const std::vector<Json>& rows) {
  std::vector<Table> tables;
  for (const Json& row : rows) {
    std::vector<JsonColumn> columns = {{"name", "phase"}, {"allocated_bytes", "allocated", Kind::bytes}};
    for (const char* category :
         {"parameter", "optimizer_state", "data", "gradient", "activation", "temporary", "workspace"}) {
      std::string heading = category;
      std::ranges::replace(heading, '_', ' ');
      columns.push_back({fmt::format("by_category.{}", category), heading, Kind::bytes});
    }
    const JsonRows phases = pointers(field(row, "memory.phases"));
    if (!phases.empty()) {
      tables.push_back(json_table(captioned(row, "the peak of each phase"), phases, columns, Format::markdown));
      tables.back().note = sawtooth_of(row);
    }
    const auto add = [&](const std::string& what, const char* path, std::vector<JsonColumn> more) {
      std::vector<JsonColumn> blocks = {{"module", "module"},
                                        {"op", "op"},
                                        {"category", "category"},
                                        {"phase", "phase"},
                                        {"block_bytes", "each", Kind::bytes},
                                        {"formula", "formula"},
                                        {"blocks", "times", Kind::number}};
      std::ranges::move(more, std::back_inserter(blocks));
      const JsonRows found = pointers(field(row, path));
      if (!found.empty()) tables.push_back(json_table(captioned(row, what), first_of(found), blocks, Format::markdown));
    };
    add("largest allocations of an iteration", "memory.largest_allocations",
        {{"at_peak", "at the peak", Kind::number}, {"source", "made at"}});
    add(fmt::format("saved for backward by {}", text_at(row, "memory.block.name")), "memory.block.saved",
        {{"bytes", "all", Kind::bytes}, {"source", "made at"}});
  }
  return tables;
}

// Each rank of each row: what it has allocated around the optimizer's step.
std::vector<Table> sharded_memory_tables(const std::vector<Json>& rows) {
  std::vector<Table> tables;
  for (const Json& row : rows) {
    const JsonRows ranks = pointers(field(row, "memory.ranks"));
    if (ranks.empty()) continue;
    tables.push_back(json_table(captioned(row, "--shard " + text_at(row, "parallel.shard")), ranks,
                                {{"rank", "rank", Kind::number},
                                 {"initialised_bytes", "initialised", Kind::bytes},
                                 {"before_optimizer_bytes", "before optimizer", Kind::bytes},
                                 {"after_optimizer_bytes", "after optimizer", Kind::bytes},
                                 {"peak_allocated_bytes", "peak", Kind::bytes},
                                 {"peak_reserved_bytes", "peak reserved", Kind::bytes}},
                                Format::markdown));
  }
  return tables;
}

Page record_tables(StudyPart part, const std::vector<Json>& rows) {
  std::vector<Record> records = records_of(rows), first_calls;
  if (part == StudyPart::warmup) {  // what a first call is made of takes a table of its own
    const auto is_first_call = [](const Record& record) {
      return record.training_step && record.training_step->first_call_ms.total.has_value();
    };
    std::ranges::copy_if(records, std::back_inserter(first_calls), is_first_call);
    std::erase_if(records, is_first_call);
  }
  Page page;
  for (const std::vector<Record>* each : {&records, &first_calls}) {
    if (each->empty() && !page.tables.empty()) continue;
    for (Table& table : records_page(*each, Format::markdown, columns_of(part)).tables)
      page.tables.push_back(std::move(table));
  }
  add_pivots(page, part, records);
  std::vector<Table> more;
  if (part == StudyPart::profile) more = profile_tables(rows);
  if (part == StudyPart::memory_step || part == StudyPart::memory_forward_loop) more = memory_tables(rows);
  if (part == StudyPart::sharded_memory) more = sharded_memory_tables(rows);
  std::ranges::move(more, std::back_inserter(page.tables));
  return page;
}

Page row_tables(const StudyDocument& document, const StudyPartPlan& part) {
  Page page;
  for (StudyRowGroup& group : shown_rows(document, part)) {
    if (part.part == StudyPart::calculations) std::ranges::for_each(group.rows, [](Json& row) { row.erase("key"); });
    page.tables.push_back(flat_table(group.caption, pointers(group.rows), Format::markdown));
  }
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

std::vector<std::string> pictures_of(const StudyDocument& document, const StudyPartPlan& part,
                                     const std::vector<StudyFile>& pictures) {
  const std::string prefix = fmt::format("pictures/{}", name(part.part));
  std::vector<std::string> names;
  for (const StudyFile& picture : pictures) {
    if (picture.name.starts_with(prefix + "_") || picture.name == prefix + ".svg") names.push_back(picture.name);
  }
  for (const std::string& file : timeline_files(part))
    if (file.starts_with(prefix) && StudyFolder(document.folder).has(file)) names.push_back(file);
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
  for (const std::string& picture : pictures_of(document, part, pictures))
    text += fmt::format("\n![{0}](../{1})\n", part.title, picture);
  return {{fmt::format("tables/{}.md", name(part.part)), std::move(text)},
          {fmt::format("tables/{}.csv", name(part.part)), render(Format::csv, csv_page(document, part))}};
}

std::vector<StudyRowGroup> shown_rows(const StudyDocument& document, const StudyPartPlan& part) {
  const std::vector<Json>& rows = document.rows.at(part.part);
  if (part.part == StudyPart::devices) return devices(rows);
  if (part.part == StudyPart::accounting) return by_moment(rows);
  if (part.part == StudyPart::calculations) return by_topic(rows);
  std::vector<StudyRowGroup> groups;
  std::size_t taken = 0;
  for (const StudyLogEntry& entry : document.log) {
    if (entry.part != part.part || entry.command >= part.commands.size()) continue;
    const auto count = static_cast<std::size_t>(std::max(entry.rows, std::int64_t{0}));
    if (count == 0 || taken + count > rows.size()) continue;
    groups.push_back({command_text(part.commands[entry.command], document.folder), {}});
    for (std::size_t i = 0; i < count; ++i) groups.back().rows.push_back(flat_row(rows[taken + i]));
    taken += count;
  }
  // If a study was stopped between a row and the end of its command line, the command line of its rows is not known.
  if (taken != rows.size()) {
    groups.assign(1, {});
    for (const Json& row : rows) groups.front().rows.push_back(flat_row(row));
  }
  if (groups.size() == 1) groups.front().caption.clear();
  return groups;
}

}  // namespace ridgepoint::tables
