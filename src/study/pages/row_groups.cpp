// Rows of `devices`, `precision` and `attention --account` as they are shown.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text/units.h"
#include "study/pages/json_table.h"
#include "study/pages/parts.h"

namespace ridgepoint::views {
namespace {

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
    for (const Json* rate : pointers(member(row, "matmul")))
      shown["matmul " + text_at(*rate, "dtype")] = format_count(number_at(*rate, "flops_per_second")) + "flop/s";
    groups[0].rows.push_back(std::move(shown));
  }
  std::erase_if(groups, [](const StudyRowGroup& group) { return group.rows.empty(); });
  return groups;
}

// The rows of an account belong to a variant and a moment each.
std::vector<StudyRowGroup> by_moment(const std::vector<Json>& rows) {
  std::vector<StudyRowGroup> groups;
  for (const Json& row : rows) {
    const std::string caption = fmt::format("{}, {}", text_at(row, "attention"), text_at(row, "moment"));
    if (groups.empty() || groups.back().caption != caption) groups.push_back({caption, {}});
    Json shown = flat_row(row);
    shown.erase("attention");
    shown.erase("moment");
    groups.back().rows.push_back(std::move(shown));
  }
  return groups;
}

}  // namespace

std::vector<StudyRowGroup> shown_rows(const StudyDocument& document, const StudyPartPlan& part) {
  const std::vector<Json>& rows = document.rows.at(part.part);
  if (part.part == StudyPart::devices) return devices(rows);
  if (part.part == StudyPart::accounting) return by_moment(rows);
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
  // Of a study that was stopped between a row and the end of its command line it is not known whose the rows are.
  if (taken != rows.size()) {
    groups.assign(1, {});
    for (const Json& row : rows) groups.front().rows.push_back(flat_row(row));
  }
  if (groups.size() == 1) groups.front().caption.clear();
  return groups;
}

}  // namespace ridgepoint::views
