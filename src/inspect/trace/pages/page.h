// Profilers' traces as pages: for each device a verdict and tables, for several ranks their waits, for two traces their
// differences. The tables are those of profiles (inspect/profile/pages). JSON has a document for each device; CSV one
// table of all devices. docs/commands/trace.md lists the names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "inspect/trace/analysis.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

enum class TraceBreakdown : std::uint8_t { kernel, op_class, scope, step, idle };
// "kernel", "class" (op_class), "scope", "step" or "idle". Throws Error (usage) naming the nearest.
TraceBreakdown trace_breakdown_from_name(std::string_view text);
std::string_view name(TraceBreakdown breakdown);

struct TraceViewOptions {
  std::optional<TraceBreakdown> only;  // empty: all; in CSV kernels
  std::size_t top = 15;                // rows in the table of kernels; 0 shows all
  int depth = 3;                       // levels of modules
};

Page trace_page(const std::vector<TraceLane>& lanes, const TraceViewOptions& options, Format format);

// Two devices, the later one measured against the first. `names` are what tables call them.
struct ComparedNames {
  std::string before = "before", after = "after";
};
Page trace_difference_page(const TraceLane& before, const TraceLane& after, const ComparedNames& names, std::size_t top,
                           Format format);

// Names a run of ours beside a trace: its settings, and the measured or predicted time of a step.
void name_own_run(TraceLane& lane, const Profile& profile);

// A breakdown with the keys of JSON and CSV.
Table trace_rows(const TraceLane& lane, TraceBreakdown which, int depth);

// Of a device with a memory snapshot beside it; null without one.
std::vector<Table> memory_tables(const TraceLane& lane, std::size_t shown);
Json memory_document(const TraceLane& lane);

// The document of a device.
Json trace_document(const TraceLane& lane, const TraceViewOptions& options);

// Times of JSON, and of tables.
inline double in_us(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }
std::string ms_text(std::int64_t ns);

// Where a device's figures are from: "a.json (Chrome trace), rank 0 of 2, device 0, only ProfilerStep#4".
std::string trace_heading(const TraceLane& lane);

// What was wrong in the file, a sentence each.
std::vector<std::string> trace_faults(const TraceLane& lane);

}  // namespace ridgepoint::tables
