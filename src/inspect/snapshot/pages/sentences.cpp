// The sentences of a snapshot's page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "inspect/snapshot/pages/parts.h"

namespace ridgepoint::views {
namespace {

using Basis = SnapshotLeaks::Basis;
using Verdict = SnapshotSawtooth::Verdict;

constexpr auto kBasisNames = enum_names<Basis>("none", "annotations", "cycles", "window");
constexpr auto kVerdictNames =
    enum_names<Verdict>("none", "allocator_bound", "released_in_bursts", "filled_in_bursts", "balanced");

std::string_view explain(Verdict verdict) {
  switch (verdict) {
    case Verdict::allocator_bound:
      return "Verdict: bound by the allocator. Much of the time goes to requests to the device for segments.";
    case Verdict::released_in_bursts:
      return "Verdict: filled at the pace of the work, released in a burst when the program drops its references. The "
             "steep fall costs little time.";
    case Verdict::filled_in_bursts:
      return "Verdict: filled in a burst and released at the pace of the work.";
    case Verdict::balanced:
      return "Verdict: memory rises and falls at about the same pace, that of the calls of the host.";
    case Verdict::none:
      break;
  }
  return "";
}

}  // namespace

std::string_view name(Basis basis) { return kBasisNames[basis]; }
std::string_view name(Verdict verdict) { return kVerdictNames[verdict]; }

std::string history_sentence(const SnapshotReport& report) {
  if (report.history_complete) return "The history is complete: every live block has its allocation in it.";
  return fmt::format("The history is incomplete, and peaks are those of the recorded events.\n{}",
                     fmt::join(report.incomplete_because, "\n"));
}

std::string fragmentation_sentence(const SnapshotReport& report) {
  const SnapshotFragmentation& found = report.fragmentation;
  return fmt::format(
      "Reserved but not active: {} at the peak; {} at the end, in {} free block{}, the largest of {}; {} of it in "
      "segments "
      "without a live block, which empty_cache() would return. Rounding at the peak: {}.",
      format_bytes(found.at_peak_bytes), format_bytes(found.at_end_bytes), found.free_blocks,
      found.free_blocks == 1 ? "" : "s", format_bytes(found.largest_free_bytes),
      format_bytes(found.unused_segment_bytes), format_bytes(found.rounding_bytes));
}

std::string leak_sentence(const SnapshotLeaks& leaks) {
  if (leaks.basis == Basis::none) return "Nothing repeats in the history, so growth cannot be told from use.";
  if (leaks.basis == Basis::window) {
    if (leaks.leaked_bytes == 0)
      return "Nothing repeats in the history; memory did not grow from its begin to its end.";
    return fmt::format(
        "Nothing repeats in the history; allocated memory grew by {} from its begin to its end. Annotations around a "
        "step would show whether each repetition adds to it.",
        format_bytes(leaks.leaked_bytes));
  }
  const std::string where = leaks.basis == Basis::annotations
                                ? fmt::format("at the ends of {} repetitions of '{}'", leaks.repetitions, leaks.name)
                                : fmt::format("at the lows of {} cycles", leaks.repetitions);
  if (leaks.leaked_bytes == 0) return fmt::format("No leak: allocated memory does not grow {}.", where);
  const std::size_t steps = leaks.repetitions - leaks.compared_from;
  return fmt::format(
      "Allocated memory grew by {} from repetition {} to {}, measured {}: in {} of {} steps, {} a step. The blocks "
      "above "
      "have no counterpart that was freed.",
      format_bytes(leaks.leaked_bytes), leaks.compared_from, leaks.repetitions, where, leaks.grew, steps,
      format_bytes(leaks.leaked_bytes / steps));
}

std::string failure_sentence(const SnapshotOutOfMemory& failure, std::int64_t begin_us) {
  const MemoryLevels& levels = failure.levels;
  const std::string when = failure.when.time_us > begin_us
                               ? fmt::format(", {} ms after the first event",
                                             format_ms(static_cast<double>(failure.when.time_us - begin_us) / 1e3))
                               : "";
  const std::string device_free =
      failure.device_free_bytes ? format_bytes(*failure.device_free_bytes) : std::string("an unknown amount");
  return fmt::format(
      "{} asked for {} at event {}{}; the device had {} free. Held: {} allocated, {} active, {} reserved. {}",
      failure.origin, format_bytes(failure.requested_bytes), failure.when.moment, when, device_free,
      format_bytes(levels.allocated_bytes), format_bytes(levels.active_bytes), format_bytes(levels.reserved_bytes),
      failure.advice);
}

std::string retry_sentence(const SnapshotRetries& retries) {
  return fmt::format(
      "{} time{} segments were given back to the device ({} segments, {}) directly before another was asked for, {} of "
      "them before a failure. The allocator does this when the device is full (so does a call of empty_cache()); each "
      "waits for the device.",
      retries.count, retries.count == 1 ? "" : "s", retries.segments, format_bytes(retries.bytes), retries.before_oom);
}

std::string sawtooth_sentence(const SnapshotSawtooth& sawtooth) {
  if (sawtooth.cycles == 0) return "Memory does not rise and fall repeatedly.";
  return fmt::format(
      "{} cycles of {}. {} {} Whether the device was busy is not in a snapshot; `ridgepoint profile` shows it.",
      sawtooth.cycles, format_bytes(static_cast<std::uint64_t>(sawtooth.height_bytes)), sawtooth.evidence,
      explain(sawtooth.verdict));
}

}  // namespace ridgepoint::views
