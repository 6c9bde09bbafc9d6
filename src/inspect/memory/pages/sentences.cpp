// The sentences of a page of a run's memory.
#include <fmt/format.h>

#include "core/text/units.h"
#include "inspect/memory/pages/parts.h"

namespace ridgepoint::views {
namespace {

std::string explain(const Sawtooth& sawtooth, const std::string& problem) {
  const std::string busy = sawtooth.busy_share ? fmt::format("{:.0f} %", 100 * *sawtooth.busy_share) : std::string();
  switch (sawtooth.verdict) {
    case Sawtooth::Verdict::compute_bound:
      return fmt::format(
          "Verdict: compute-bound. Kernels run {} of the time of an iteration, so a faster allocator or "
          "host would not help.",
          busy);
    case Sawtooth::Verdict::host_bound:
      return fmt::format(
          "Verdict: host-bound. Kernels run {} of the time of an iteration; the device waits for "
          "launches and requests in the rest.",
          busy);
    case Sawtooth::Verdict::allocator_bound:
      return fmt::format("Verdict: allocator-bound. {:.0f} % of the time goes to requests to the device for segments.",
                         100 * sawtooth.allocator_share);
    case Sawtooth::Verdict::unknown:
      break;
  }
  return problem.empty() ? "No verdict: nothing was computed, so the device was not busy or idle."
                         : fmt::format("No verdict: the device's work is not known ({}).", problem);
}

// "1.5 GiB/s", of a slope of zero duration nothing.
std::string slope(double height_bytes, double ms) {
  if (ms <= 0) return "-";
  return format_bytes(static_cast<std::uint64_t>(height_bytes / ms * 1e3)) + "/s";
}

std::string ratio(double rise, double fall) {
  if (fall <= 0) return "-";
  const double ratio = rise / fall;
  return fmt::format("{:.{}f} : 1", ratio, ratio < 10 ? 2 : 0);
}

std::string counts_of(const Sawtooth& sawtooth) {
  const std::string each =
      fmt::format("{}", format_bytes(static_cast<std::uint64_t>(sawtooth.height_bytes / sawtooth.rise_events)));
  return fmt::format("{:.0f} events up ({} an event), {:.0f} down, {}", sawtooth.rise_events, each,
                     sawtooth.fall_events, ratio(sawtooth.rise_events, sawtooth.fall_events));
}

}  // namespace

std::string device_sentence(const Record& record) {
  const Record::Memory& memory = record.memory_bytes;
  if (!memory.device_used || !memory.device_at_start || !memory.device_libraries) return "";
  const auto text = [](const std::optional<std::int64_t>& bytes) {
    return format_bytes(static_cast<std::uint64_t>(*bytes));
  };
  return fmt::format(
      "The driver reports {} in use: {} before the run (this process's context, other processes), {} for the code of "
      "kernels and libraries, and the reserved memory.",
      text(memory.device_used), text(memory.device_at_start), text(memory.device_libraries));
}

std::string residual_sentence(const MemoryRun& run) {
  if (!run.residual) return "";
  return fmt::format("One activation of the residual stream has {} = {}.", run.residual->formula,
                     format_bytes(run.residual->bytes));
}

std::string sawtooth_sentence(const MemoryRun& run) {
  if (!run.sawtooth) return "";
  const Sawtooth& sawtooth = *run.sawtooth;
  const bool has_times = run.run.device.kind != "null";
  std::string text = fmt::format("Between two peaks, memory falls and rises by {} (mean of {}).\n",
                                 format_bytes(static_cast<std::uint64_t>(sawtooth.height_bytes)), sawtooth.cycles);
  if (has_times) {
    text += fmt::format("In time: {} ms up ({}), {} ms down ({}), {}. ", format_ms(sawtooth.rise_ms),
                        slope(sawtooth.height_bytes, sawtooth.rise_ms), format_ms(sawtooth.fall_ms),
                        slope(sawtooth.height_bytes, sawtooth.fall_ms), ratio(sawtooth.rise_ms, sawtooth.fall_ms));
  }
  text += fmt::format("In events, the axis of the common viewer: {}.\n", counts_of(sawtooth));
  text += sawtooth.segment_requests == 0
              ? "The allocator made no request to the device. "
              : fmt::format(
                    "The allocator asked the device for {} segments ({} after it gave others back), {:.1f} % of "
                    "the time. ",
                    sawtooth.segment_requests, sawtooth.retries, 100 * sawtooth.allocator_share);
  return text + explain(sawtooth, run.work_problem);
}

}  // namespace ridgepoint::views
