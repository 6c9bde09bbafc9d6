// A memory snapshot beside a trace.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/text/units.h"
#include "inspect/profile/views.h"
#include "inspect/trace/pages/page.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

constexpr std::size_t kLeastNameColumns = 24;

// Since the begin of what is shown.
std::int64_t since_begin(const TraceLane& lane, std::int64_t ns) {
  return ns - (lane.timeline.steps.empty() ? 0 : lane.timeline.steps.front().begin_ns);
}

std::string segments_text(const SegmentRequests& segments) {
  return segments.count == 0 ? "-" : fmt::format("{}, {}", segments.count, format_bytes(segments.bytes));
}

std::string clock_sentence(const TraceMemory& memory) {
  std::string text = fmt::format(
      "Memory of '{}', device {}: {} events while the trace was recorded, by the host's wall clock, which both have",
      memory.file, memory.device, memory.events);
  if (!memory.clock) return text + '.';
  return text + fmt::format("; {} requests for segments lie {:.1f} us behind the trace's calls for them (median).",
                            memory.clock->requests, in_us(memory.clock->median_ns));
}

}  // namespace

std::vector<Table> memory_tables(const TraceLane& lane, std::size_t shown) {
  const TraceMemory& memory = *lane.memory;
  Table levels;
  levels.title =
      "Allocated memory by step and phase (by the host's clock: a block is asked for before its kernel is launched)";
  levels.caption = clock_sentence(memory);
  if (memory.is_incomplete) levels.caption += " Events were lost, because its ring buffer was full.";
  levels.columns = {left("step"),
                    left("phase"),
                    right("begin"),
                    right("end"),
                    right("peak"),
                    right("peak at ms", 1),
                    right("segments taken", 2),
                    left("asked at the peak", 1),
                    left("ran at the peak", 1)};
  levels.key_columns = 2;
  levels.least_last_columns = kLeastNameColumns;
  const std::string* step = nullptr;
  for (std::size_t i = 0; i < std::min(shown, memory.stretches.size()); ++i) {
    const MemoryStretch& row = memory.stretches[i];
    const bool is_same = step != nullptr && *step == row.step;
    step = &row.step;
    levels.add({is_same            ? ""
                : row.step.empty() ? "all"
                                   : row.step,
                row.phase, format_bytes(row.begin_bytes), format_bytes(row.end_bytes), format_bytes(row.peak_bytes),
                ms_text(since_begin(lane, row.peak_ns)), segments_text(row.segments),
                row.asked.empty() ? "-" : row.asked, row.ran.empty() ? "-" : row.ran});
  }
  if (shown < memory.stretches.size())
    levels.remark = fmt::format("{} more; --top 0 shows all.", memory.stretches.size() - shown);

  std::int64_t idle_ns = 0;
  for (const AllocatorGap& gap : memory.gaps) idle_ns += gap.duration_ns;
  Table gaps;
  gaps.title = "Requests to the device for memory, and the idle time that they caused";
  gaps.columns = {right("at ms"), right("idle us"), right("host in calls us"), right("segments", 1),
                  left("next kernel")};
  gaps.least_last_columns = kLeastNameColumns;
  gaps.remark = fmt::format("Segments requested while the trace was recorded: {}. Gaps: {}, {} ms in all.",
                            segments_text(memory.segments), memory.gaps.size(), ms_text(idle_ns));
  for (std::size_t i = 0; i < std::min(shown, memory.gaps.size()); ++i) {
    const AllocatorGap& gap = memory.gaps[i];
    gaps.add({ms_text(since_begin(lane, gap.begin_ns)), fmt::format("{:.1f}", in_us(gap.duration_ns)),
              fmt::format("{:.1f}", in_us(gap.calls_ns)), segments_text(gap.segments),
              lane.timeline.name_of(lane.timeline.events[gap.before])});
  }
  return {std::move(levels), std::move(gaps)};
}

Json memory_document(const TraceLane& lane) {
  if (!lane.memory) return nullptr;
  const TraceMemory& memory = *lane.memory;
  Json json = {{"file", memory.file},
               {"device", memory.device},
               {"events", memory.events},
               {"is_incomplete", memory.is_incomplete},
               {"segments", memory.segments.count},
               {"segment_bytes", memory.segments.bytes},
               {"requests_behind_calls_us", memory.clock ? Json(in_us(memory.clock->median_ns)) : Json(nullptr)}};
  json["levels"] = json_list(memory.stretches, [&](const MemoryStretch& row) -> Json {
    return {{"step", text_or_null(row.step)},   {"phase", text_or_null(row.phase)},
            {"begin_bytes", row.begin_bytes},   {"end_bytes", row.end_bytes},
            {"peak_bytes", row.peak_bytes},     {"peak_at_us", in_us(since_begin(lane, row.peak_ns))},
            {"segments", row.segments.count},   {"segment_bytes", row.segments.bytes},
            {"asked", text_or_null(row.asked)}, {"ran", text_or_null(row.ran)}};
  });
  json["gaps"] = json_list(memory.gaps, [&](const AllocatorGap& gap) -> Json {
    return {{"at_us", in_us(since_begin(lane, gap.begin_ns))},
            {"idle_us", in_us(gap.duration_ns)},
            {"calls_us", in_us(gap.calls_ns)},
            {"segments", gap.segments.count},
            {"segment_bytes", gap.segments.bytes},
            {"before", lane.timeline.name_of(lane.timeline.events[gap.before])}};
  });
  return json;
}

}  // namespace ridgepoint::tables
