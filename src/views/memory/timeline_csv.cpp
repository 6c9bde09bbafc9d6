#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/text/text.h"
#include "measure/memory/history/origin.h"
#include "views/memory/files.h"

namespace ridgepoint::views {

std::string timeline_csv(const MemoryRun& run) {
  const MemoryHistory& history = run.history;
  const bool has_times = run.run.device.kind != "null";
  const std::int64_t begin_ns = history.events.empty() ? 0 : history.events.front().time_ns;
  std::string text =
      "event,time_ms,iteration,phase,action,address,bytes,requested_bytes,category,op,module,source,allocated_bytes,"
      "reserved_bytes\n";
  auto out = std::back_inserter(text);
  auto span = history.phases.begin();
  walk_levels(history, [&](std::size_t moment, const MemoryEvent& event, const MemoryLevel& level) {
    const std::size_t index = moment - 1;
    while (span != history.phases.end() && span->end <= index) ++span;
    const bool is_in_phase = span != history.phases.end() && span->begin <= index;
    const bool is_block = event.kind == MemoryEventKind::alloc || event.kind == MemoryEventKind::free;
    fmt::format_to(out, "{},{},{},{},{},{},{},{},{},", index,
                   has_times ? fmt::format("{:.6f}", static_cast<double>(event.time_ns - begin_ns) / 1e6) : "",
                   is_in_phase ? fmt::format("{}", span->iteration + 1) : "",
                   is_in_phase ? name(span->phase) : std::string_view(), name(event.kind),
                   event.kind == MemoryEventKind::oom ? 0 : event.address, event.bytes, event.requested_bytes,
                   is_block ? name(event.category) : std::string_view());
    if (event.node == kNoNode) {
      fmt::format_to(out, ",,");
    } else {
      const Node& node = run.graph().node(NodeId{event.node});
      fmt::format_to(out, "{},{},{}", csv_field(op_of(node)), csv_field(module_of(run.graph(), node)),
                     csv_field(run.graph().source_name(node)));
    }
    fmt::format_to(out, ",{},{}\n", level.allocated_bytes, level.reserved_bytes);
  });
  return text;
}

}  // namespace ridgepoint::views
