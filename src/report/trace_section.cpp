// A trace as a section of the page.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "core/text/text.h"
#include "report/report_page.h"

namespace ridgepoint::tables {
namespace {

// A table of the section: where its rows are in the document.
struct TracePart {
  std::string_view path;
  std::string_view caption;
};
constexpr std::array kParts = {
    TracePart{"/classes", "Kernels by phase and class"},
    TracePart{"/steps", "Steps, by the host's clock"},
    TracePart{"/first_step", "The first step against the median of the later ones"},
    TracePart{"/idle", "Idle time of the device"},
    TracePart{"/roofline/classes", "Roofline by the card's datasheet, of kernels whose work is known"},
    TracePart{"/memory/levels", "Allocated memory by step and phase"},
    TracePart{"/memory/gaps", "Idle time that requests for memory caused"},
    TracePart{"/critical_path", "Critical path"},
    TracePart{"/scopes", "Modules"},
    TracePart{"/kernels/by_name", "Kernels"},
};
constexpr std::size_t kMostRows = 200;  // of a table

// The figures of the document itself.
Json summary_of(const Json& trace) {
  Json row = Json::object();
  for (const auto& [key, value] : trace.items())
    if (!value.is_structured() && !value.is_null()) row[key] = value;
  for (const auto& [key, value] : trace["kernels"].items())
    if (value.is_number()) row["kernels_" + key] = value;
  return Json::array({row});
}

}  // namespace

std::vector<ReportFile> trace_section(const Json& trace, const std::string& file, std::size_t number) {
  const std::string device = trace.contains("device") && trace["device"].is_string() ? trace["device"] : "no device";
  const Json part = {{"id", fmt::format("trace-{}", number)},
                     {"title", valid_utf8(fmt::format("trace of {}", device))},
                     {"commands", Json::array()}};
  std::vector<ReportFile> files;
  const auto add = [&](std::string_view caption, const Json& rows) {
    ReportFile& added = files.emplace_back(ReportFile{.name = file, .records = {}, .rows = {}});
    added.part = part;
    added.caption = caption;
    for (const Json& row : rows)
      if (row.is_object() && added.rows.size() < kMostRows) added.rows.push_back(row);
    if (rows.size() > kMostRows) added.caption += fmt::format(", the first {} of {}", kMostRows, rows.size());
  };
  add("The trace", summary_of(trace));
  for (const TracePart& shown : kParts) {
    const Json::json_pointer path{std::string(shown.path)};
    if (trace.contains(path) && trace[path].is_array() && !trace[path].empty()) add(shown.caption, trace[path]);
  }
  return files;
}

}  // namespace ridgepoint::tables
