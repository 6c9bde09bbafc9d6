// The sentences of a page of memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/memory_category.h"
#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "inspect/memory/pages/parts.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

using Basis = MemoryLeaks::Basis;
using Verdict = Sawtooth::Verdict;

constexpr auto kBasisNames = enum_names<Basis>("none", "annotations", "cycles", "window");

std::string verdict_sentence(const Sawtooth& sawtooth) {
  const std::string busy = sawtooth.busy_share ? fmt::format("{:.0f} %", 100 * *sawtooth.busy_share) : std::string();
  switch (sawtooth.verdict) {
    case Verdict::compute_bound:
      return fmt::format(
          "Verdict: compute-bound. Kernels run {} of the time of an iteration, so a faster allocator or "
          "host would not help.",
          busy);
    case Verdict::host_bound:
      return fmt::format(
          "Verdict: host-bound. Kernels run {} of the time of an iteration; the device waits for "
          "launches and requests in the rest.",
          busy);
    case Verdict::allocator_bound:
      return fmt::format("Verdict: allocator-bound. {:.0f} % of the time goes to requests to the device for segments.",
                         100 * sawtooth.allocator_share);
    case Verdict::released_in_bursts:
      return "Verdict: filled at the pace of the work, released in a burst when the program drops its references. The "
             "steep fall costs little time.";
    case Verdict::filled_in_bursts: return "Verdict: filled in a burst and released at the pace of the work.";
    case Verdict::balanced:
      return "Verdict: memory rises and falls at about the same pace, that of the calls of the host.";
    case Verdict::unknown:
    case Verdict::none: break;
  }
  return "";
}

std::string explain(const MemoryReport& report, bool is_run, const std::string& work_problem) {
  const Sawtooth& sawtooth = report.sawtooth;
  if (sawtooth.verdict == Verdict::unknown) {
    if (report.has_times) return "No verdict: rise and fall take no time.";
    return is_run ? "No verdict: nothing was computed, so the device was not busy or idle."
                  : "No verdict: the file has no times.";
  }
  std::string text = verdict_sentence(sawtooth);
  if (!is_run) text += " Whether the device was busy is not in a snapshot; `ridgepoint profile` shows it.";
  if (!work_problem.empty()) text += fmt::format(" The device's work is not known ({}).", work_problem);
  return text;
}

// "1.5 GiB/s", of a slope of zero duration nothing.
std::string slope(double height_bytes, double ms) {
  if (ms <= 0) return "-";
  constexpr double kMost = 1e18;
  return format_bytes(static_cast<std::uint64_t>(std::min(height_bytes / ms * 1e3, kMost))) + "/s";
}

std::string ratio(double rise, double fall) {
  if (fall <= 0) return "-";
  const double ratio = rise / fall;
  return fmt::format("{:.{}f}{}:{}1", ratio, ratio < 10 ? 2 : 0, kNoBreak, kNoBreak);
}

std::string counts_of(const Sawtooth& sawtooth) {
  const std::string each = format_bytes(static_cast<std::uint64_t>(sawtooth.height_bytes / sawtooth.rise_events));
  return fmt::format(
      "In events: {:.0f} up ({} an event), {:.0f} down, {}. On the axis of the viewer at pytorch.org/memory_viz, where "
      "the release of a block that is not the newest takes four steps and any other event one: {:.0f} up, {:.0f} down, "
      "{}.\n",
      sawtooth.rise_events, each, sawtooth.fall_events, ratio(sawtooth.rise_events, sawtooth.fall_events),
      sawtooth.rise_steps, sawtooth.fall_steps, ratio(sawtooth.rise_steps, sawtooth.fall_steps));
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

std::string host_sentence(const Record& record) {
  if (!record.memory_bytes.host) return "";
  const std::string on_host =
      fmt::format("{} lie in the memory of the host (--offload {})",
                  format_bytes(static_cast<std::uint64_t>(*record.memory_bytes.host)), name(record.offload));
  if (!record.memory_bytes.disk) return on_host + ".";
  return fmt::format("{}, and {} in a file (--offload-folder {}).", on_host,
                     format_bytes(static_cast<std::uint64_t>(*record.memory_bytes.disk)),
                     record.offload_folder.value_or(""));
}

std::string viewer_sentence(const MemoryReport& report) {
  return fmt::format("The viewer at pytorch.org/memory_viz draws requested bytes; its peak is {}.",
                     format_bytes(report.peak.requested_bytes));
}

std::string residual_sentence(const MemoryRun& run) {
  if (!run.residual) return "";
  return fmt::format("One activation of the residual stream has {} = {}.", run.residual->formula,
                     format_bytes(run.residual->bytes));
}

std::string_view name(Basis basis) { return kBasisNames[basis]; }

std::string block_sentence(const BlockContents& block) {
  const auto size = [](std::uint64_t bytes, std::uint64_t requested) {
    const std::string text = format_bytes(bytes), before = format_bytes(requested);
    return text == before ? text : fmt::format("{} ({} requested)", text, before);
  };
  const std::uint64_t saved = block.saved.bytes_of(name(MemoryCategory::activation));
  std::string text =
      saved > 0 ? fmt::format("{} saves {} for backward.", block.name, size(saved, block.requested_saved_bytes()))
                : fmt::format("{} saves nothing for backward.", block.name);
  if (block.gradient_bytes)
    text += fmt::format(" The gradients of its parameters have {}.",
                        size(*block.gradient_bytes, *block.requested_gradient_bytes));
  return text;
}

std::string history_sentence(const MemoryReport& report) {
  if (report.history_complete) return "The history is complete: every live block has its allocation in it.";
  return fmt::format("The history is incomplete, and peaks are those of the recorded events.\n{}",
                     fmt::join(report.incomplete_because, "\n"));
}

std::string fragmentation_sentence(const MemoryReport& report) {
  const Fragmentation& found = report.fragmentation;
  return fmt::format(
      "Reserved but not active: {} at the peak; {} at the end, in {} free block{}, the largest of {}; {} of it in "
      "segments "
      "without a live block, which empty_cache() would return. Rounding at the peak: {}.",
      format_bytes(found.at_peak_bytes), format_bytes(found.at_end_bytes), found.free_blocks,
      found.free_blocks == 1 ? "" : "s", format_bytes(found.largest_free_bytes),
      format_bytes(found.unused_segment_bytes), format_bytes(report.contents.rounding_bytes()));
}

std::string leak_sentence(const MemoryLeaks& leaks) {
  if (leaks.basis == Basis::none) return "";
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
      "above have no counterpart that was freed.",
      format_bytes(leaks.leaked_bytes), leaks.compared_from, leaks.repetitions, where, leaks.grew, steps,
      format_bytes(leaks.leaked_bytes / steps));
}

std::string failure_sentence(const OutOfMemoryEvent& failure, std::int64_t begin_us) {
  const MemoryLevels& levels = failure.held.levels;
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

std::string retry_sentence(const AllocatorRetries& retries) {
  return fmt::format(
      "{} time{} the allocator gave segments back to the device ({} segment{}, {}) directly before it asked for "
      "another one, {} of them before a failure. It does this when the device is full (so does a call of "
      "empty_cache()), and waits for the device each time.",
      retries.count, retries.count == 1 ? "" : "s", retries.segments, retries.segments == 1 ? "" : "s",
      format_bytes(retries.bytes), retries.before_oom);
}

std::string sawtooth_sentence(const MemoryReport& report, bool is_run, const std::string& work_problem) {
  const Sawtooth& sawtooth = report.sawtooth;
  if (sawtooth.cycles == 0) return "Memory does not rise and fall repeatedly.";
  std::string text = fmt::format("Between two peaks, memory falls and rises by {} (mean of {}).\n",
                                 format_bytes(static_cast<std::uint64_t>(sawtooth.height_bytes)), sawtooth.cycles);
  if (report.has_times) {
    text += fmt::format("In time: {} ms up ({}), {} ms down ({}), {}. ", format_ms(sawtooth.rise_ms),
                        slope(sawtooth.height_bytes, sawtooth.rise_ms), format_ms(sawtooth.fall_ms),
                        slope(sawtooth.height_bytes, sawtooth.fall_ms), ratio(sawtooth.rise_ms, sawtooth.fall_ms));
  }
  text += counts_of(sawtooth);
  text +=
      sawtooth.segment_requests == 0
          ? "The allocator made no request to the device. "
          : fmt::format("The allocator asked the device for {} segment{} ({} after it gave others back){}. ",
                        sawtooth.segment_requests, sawtooth.segment_requests == 1 ? "" : "s", sawtooth.retries,
                        report.has_times ? fmt::format(", {:.1f} % of the time", 100 * sawtooth.allocator_share) : "");
  return text + explain(report, is_run, work_problem);
}

}  // namespace ridgepoint::tables
