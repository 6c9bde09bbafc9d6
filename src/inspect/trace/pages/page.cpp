#include "inspect/trace/pages/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "inspect/profile/pages/figures.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

constexpr auto kTraceBreakdowns = enum_names<TraceBreakdown>("kernel", "class", "scope", "step", "idle");

// A sentence for each fault, of one and of several; {} is how often.
struct FaultSentence {
  std::string_view one, many;
};
constexpr std::string_view kCutOff = "The file is cut off: what is whole in it is used.";
constexpr std::array<FaultSentence, kTraceFaults> kFaultSentences = {{
    {kCutOff, kCutOff},
    {"{} part of the file is not JSON and was passed over.", "{} parts of the file are not JSON and were passed over."},
    {"{} event has no time and is left out.", "{} events have no time and are left out."},
    {"{} event has a negative duration and is left out.", "{} events have a negative duration and are left out."},
    {"{} event has times beyond 63 bits and is left out.", "{} events have times beyond 63 bits and are left out."},
    {"{} event of a device is more than are kept: every figure is without it.",
     "{} events of devices are more than are kept: every figure is without them. --range or --step do not bring them "
     "back; split the file."},
    {"{} call or mark of the host is more than are kept.",
     "{} calls and marks of the host are more than are kept: phases, steps and causes of idle time are incomplete."},
    {"{} pair of begin and end (B, E) is not read; PyTorch writes whole events (X).",
     "{} pairs of begin and end (B, E) are not read; PyTorch writes whole events (X)."},
    {"{} event begins before the previous one of its stream has ended; busy time counts such time once.",
     "{} events begin before the previous one of their stream has ended; busy time counts such time once."},
}};

std::string counted(std::int64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string delay_text(std::int64_t ns) {
  constexpr std::int64_t kMillisecond = 1'000'000;
  return ns < kMillisecond ? fmt::format("{:.1f} us", static_cast<double>(ns) / 1e3) : ms_text(ns) + " ms";
}
std::string share_text(std::int64_t part, std::int64_t whole) {
  return percent(static_cast<double>(part), static_cast<double>(whole));
}

// What the device did.
std::string summary_of(const TraceLane& lane) {
  if (!lane.timeline.sums.empty()) {
    return fmt::format(
        "{} in {} ms, as sums by kernel: the file has no times, so steps, idle time and launches are unknown.",
        counted(lane.kernels.calls, "kernel", "kernels"), ms_text(lane.kernels.time_ns));
  }
  if (lane.timeline.events.empty() && !lane.device.empty()) return "The device ran nothing of this selection.";
  if (lane.timeline.events.empty()) {
    return fmt::format("{} in the file, none of a device: a run on a CPU, or one without ProfilerActivity.CUDA.",
                       counted(static_cast<std::int64_t>(lane.events), "event", "events"));
  }
  return fmt::format("{}, {}, {} on {} in {} ms; the device was busy for {} ms ({} %).",
                     counted(lane.kernels.calls, "kernel", "kernels"), counted(lane.copies, "copy", "copies"),
                     counted(lane.fills, "fill", "fills"), counted(lane.streams, "stream", "streams"),
                     ms_text(lane.idle.wall_ns), ms_text(lane.idle.busy_ns),
                     share_text(lane.idle.busy_ns, lane.idle.wall_ns));
}

std::string steps_sentence(const TraceLane& lane) {
  if (lane.steps.empty() && !lane.repetition) return "No steps are marked, and the kernels do not repeat.";
  if (lane.steps.empty()) {
    return fmt::format("No steps are marked. The same {} ran {} times, every {} ms.",
                       counted(lane.repetition->kernels, "kernel", "kernels"), lane.repetition->times,
                       format_ms(lane.repetition->mean_ns / 1e6));
  }
  std::int64_t later_ns = 0;
  for (const TraceStep& step : lane.steps) later_ns += step.wall_ns();
  const auto count = static_cast<std::int64_t>(lane.steps.size());
  if (count == 1) return fmt::format("1 step of {} ms.", ms_text(later_ns));
  const std::string text = fmt::format("{} steps of {} ms on average", count, ms_text(later_ns / count));
  const TraceStep& first = lane.steps.front();
  later_ns = (later_ns - first.wall_ns()) / (count - 1);
  return text + fmt::format("; the first took {} ms, the {} {} ms.", ms_text(first.wall_ns()),
                            count == 2 ? "second" : "later ones", ms_text(later_ns));
}

// The share of matrix products in forward, and in everything.
std::string products_sentence(const TraceLane& lane) {
  KernelSum all, products, forward, forward_products;
  for (const ClassRow& row : by_class(lane.timeline)) {
    const bool is_product = row.kernel_class == KernelClass::matmul;
    const bool is_forward = lane.timeline.has_phases && row.phase == ProfilePhase::forward;
    all.add(row.sum);
    if (is_product) products.add(row.sum);
    if (is_forward) forward.add(row.sum);
    if (is_forward && is_product) forward_products.add(row.sum);
  }
  std::string text = fmt::format("Matrix products: {} % of kernel time", share_text(products.time_ns, all.time_ns));
  if (forward.calls > 0)
    text += fmt::format(", {} % of forward's", share_text(forward_products.time_ns, forward.time_ns));
  return text + '.';
}

std::string rate_sentence(const TraceProducts& found) {
  std::string text = fmt::format("Products of recorded shapes: {}flop in {} ms, {}flop/s",
                                 format_count(static_cast<double>(found.flops)), ms_text(found.time_ns),
                                 format_count(found.flops_per_second()));
  if (!found.datasheet_flops_per_second) return text + '.';
  return text + fmt::format(", {} % of the card's {}flop/s in {}.",
                            percent(found.flops_per_second(), *found.datasheet_flops_per_second),
                            format_count(*found.datasheet_flops_per_second), found.dtype);
}

std::string launches_sentence(const LaunchDelay& found) {
  if (found.launches == 0) return "No launches are recorded, so idle time has no causes.";
  return fmt::format(
      "A kernel began {} after its launch (median; 95 % within {}, at most {}); at a launch {:.1f} kernels waited on "
      "average, at most {}.",
      delay_text(found.median_ns), delay_text(found.p95_ns), delay_text(found.most_ns), found.mean_queue,
      found.longest_queue);
}

std::string idle_sentence(const TraceLane& lane) {
  const IdleTime& idle = lane.idle;
  std::string text =
      fmt::format("Idle: {} ms ({} % of the time)", ms_text(idle.idle_ns()), share_text(idle.idle_ns(), idle.wall_ns));
  if (idle.idle_ns() == 0) return text + '.';
  const auto longest = std::ranges::max_element(idle.by_cause_ns);
  const IdleCause cause = kIdleCauses[static_cast<std::size_t>(longest - idle.by_cause_ns.begin())];
  const std::string_view part = *longest > idle.idle_ns() / 2 ? "most of it" : "the largest part";
  return text + fmt::format(", {} {} ({} ms).", part, name(cause), ms_text(*longest));
}

Table step_table(const TraceLane& lane, std::size_t shown) {
  Table table;
  table.title = "Steps (by the host's clock; kernels, copies and fills by the step that launched them)";
  table.columns = {left("step"),     right("ms"),        right("kernels", 2), right("kernel ms", 1),
                   right("busy ms"), right("busy %", 1), right("of the mean")};
  std::int64_t sum_ns = 0;
  for (const TraceStep& step : lane.steps) sum_ns += step.wall_ns();
  const double mean_ns = static_cast<double>(sum_ns) / static_cast<double>(lane.steps.size());
  for (std::size_t i = 0; i < std::min(shown, lane.steps.size()); ++i) {
    const TraceStep& step = lane.steps[i];
    table.add({step.name, ms_text(step.wall_ns()), step.kernels, ms_text(step.kernel_ns), ms_text(step.busy_ns),
               share_text(step.busy_ns, step.wall_ns()),
               fmt::format("{:.2f}x", static_cast<double>(step.wall_ns()) / std::max(mean_ns, 1.0))});
  }
  if (shown < lane.steps.size()) table.remark = fmt::format("{} more; --top 0 shows all.", lane.steps.size() - shown);
  return table;
}

// Why a first step takes longer: it allocates, chooses kernels, compiles.
Table first_step_table(const TraceLane& lane, const std::vector<FirstStepRow>& rows) {
  Table table;
  table.title =
      fmt::format("First step ({}) against the median of the {} later", lane.steps.front().name, lane.steps.size() - 1);
  table.columns = {left("what"), right("first ms"), right("later ms"), right("difference ms", 1), right("times")};
  for (const FirstStepRow& row : rows) {
    table.add({row.what, format_ms(row.first_ms), format_ms(row.later_ms), format_ms(row.first_ms - row.later_ms),
               row.later_ms > 0 ? fmt::format("{:.2f}x", row.first_ms / row.later_ms) : "-"});
  }
  return table;
}

// The kernels whose work is known, in each class.
Table roofline_table(const TraceLane& lane, const TimelineFigures& figures) {
  std::map<std::string_view, std::int64_t> all_ns;
  for (const ClassRow& row : by_class(lane.timeline)) all_ns[name(row.kernel_class)] += row.sum.time_ns;
  Table table;
  table.title = fmt::format("Roofline (datasheet of {}, {}B/s; of kernels whose work the file tells)",
                            lane.roofline->card, format_count(lane.roofline->bytes_per_second));
  table.columns = {left("class"),           right("ms"),        right("known ms"),
                   right("Gflop/s", 1),     right("of rate %"), right("GB/s", 1),
                   right("of bandwidth %"), right("floor ms"),  right("of ceiling %", 1),
                   left("bound by")};
  const auto rate = [](std::int64_t work, std::int64_t ns) {  // a unit a nanosecond is 10^9 a second
    return work > 0
               ? fmt::format("{:.1f}", static_cast<double>(work) / static_cast<double>(std::max<std::int64_t>(ns, 1)))
               : "-";
  };
  for (const RooflineRow& row : lane.roofline->classes) {
    const auto time_ns = static_cast<double>(row.sum.time_ns);
    table.add({row.what, figures.ms(all_ns[row.what]), figures.ms(row.sum.time_ns),
               rate(row.sum.flops, row.sum.time_ns), row.compute_ns > 0 ? percent(row.compute_ns, time_ns) : "-",
               rate(row.sum.bytes, row.sum.time_ns), percent(row.memory_ns, time_ns), figures.ms(row.floor_ns),
               percent(row.floor_ns, time_ns), std::string(bound_of(row))});
  }
  return table;
}

// Collectives by the name of their kernel.
Table collective_table(const TraceLane& lane, const TimelineFigures& figures, std::size_t shown) {
  struct Sum {
    std::int64_t calls = 0, time_ns = 0, exposed_ns = 0;
  };
  std::map<std::string_view, Sum> sums;
  for (const CollectiveTime& time : lane.collectives.collectives) {
    Sum& sum = sums[lane.timeline.name_of(lane.timeline.events[time.kernel])];
    ++sum.calls;
    sum.time_ns += time.end_ns - time.begin_ns;
    sum.exposed_ns += time.exposed_ns;
  }
  std::vector<std::pair<std::string_view, Sum>> rows(sums.begin(), sums.end());
  std::ranges::stable_sort(rows, std::ranges::greater(), [](const auto& row) { return row.second.time_ns; });
  Table table;
  table.title = "Collectives (exposed: they ran, no other kernel did, and what waits began after them)";
  table.remark =
      fmt::format("For {} of {} ms of collectives no other kernel ran: {} % were overlapped.",
                  figures.ms(lane.collectives.alone_ns), figures.ms(lane.collectives.time_ns),
                  share_text(lane.collectives.time_ns - lane.collectives.alone_ns, lane.collectives.time_ns));
  table.columns = {right("calls"), right("ms"), right("exposed ms"), right("hidden %", 1), left("kernel")};
  constexpr std::size_t kLeastColumns = 24;
  table.least_last_columns = kLeastColumns;
  const auto add = [&](const Sum& sum, std::string_view what) {
    table.add({sum.calls, figures.ms(sum.time_ns), figures.ms(sum.exposed_ns),
               share_text(sum.time_ns - sum.exposed_ns, sum.time_ns), std::string(what)});
  };
  for (std::size_t i = 0; i < std::min(shown, rows.size()); ++i) add(rows[i].second, rows[i].first);
  add({static_cast<std::int64_t>(lane.collectives.collectives.size()), lane.collectives.time_ns,
       lane.collectives.exposed_ns},
      "all collectives");
  return table;
}

// What the path is made of, and how much of each class ran beside it.
Table path_table(const TraceLane& lane, const TimelineFigures& figures) {
  std::array<std::int64_t, kKernelClasses.size()> all_ns{};
  for (const ClassRow& row : by_class(lane.timeline))
    all_ns[static_cast<std::size_t>(row.kernel_class)] += row.sum.time_ns;
  Table table;
  table.title =
      "Critical path (from the last end back: before each event the one that ended last before it began, on any "
      "stream)";
  table.columns = {left("what"), right("ms"), right("wall %"), right("beside the path ms", 1)};
  for (std::size_t i = 0; i < kKernelClasses.size(); ++i) {
    if (all_ns[i] == 0) continue;
    table.add({std::string(name(kKernelClasses[i])), figures.ms(lane.path.by_class_ns[i]),
               figures.of_wall_time(lane.path.by_class_ns[i]), figures.ms(all_ns[i] - lane.path.by_class_ns[i])});
  }
  for (std::size_t i = 0; i < kIdleCauses.size(); ++i) {
    if (lane.path.by_cause_ns[i] == 0) continue;
    table.add({fmt::format("waiting: {}", name(kIdleCauses[i])), figures.ms(lane.path.by_cause_ns[i]),
               figures.of_wall_time(lane.path.by_cause_ns[i]), ""});
  }
  return table;
}

bool has_scopes(const DeviceTimeline& timeline) {
  return std::ranges::any_of(timeline.places, [](const KernelPlace& place) { return !place.scope.empty(); });
}

std::vector<Table> tables_of(const TraceLane& lane, const TimelineFigures& figures, const TraceViewOptions& options) {
  const std::size_t shown = options.top == 0 ? SIZE_MAX : options.top;
  const ProfileDetail detail{.depth = options.depth};
  const auto wants = [&](TraceBreakdown which) { return !options.only || *options.only == which; };
  std::vector<Table> tables;
  if (wants(TraceBreakdown::kernel))
    tables.push_back(kernel_table(figures, shown, "all kernels, copies and fills", true));
  if (wants(TraceBreakdown::op_class)) tables.push_back(class_table(figures));
  if (wants(TraceBreakdown::scope) && (options.only || has_scopes(lane.timeline)))
    tables.push_back(scope_table(figures, detail));
  if (wants(TraceBreakdown::step) && !lane.steps.empty()) {
    tables.push_back(step_table(lane, shown));
    if (const auto rows = first_against_later(lane.steps); !rows.empty())
      tables.push_back(first_step_table(lane, rows));
  }
  if (!options.only && lane.roofline && !lane.roofline->classes.empty())
    tables.push_back(roofline_table(lane, figures));
  if (!options.only && !lane.collectives.collectives.empty()) tables.push_back(collective_table(lane, figures, shown));
  if (!options.only && lane.streams > 1) tables.push_back(path_table(lane, figures));
  if (wants(TraceBreakdown::idle)) {
    tables.push_back(idle_table(figures, IdleOf::trace));
  }
  if (!options.only && lane.memory) std::ranges::move(memory_tables(lane, shown), std::back_inserter(tables));
  return tables;
}

void add_lane(Page& page, const TraceLane& lane, const TraceViewOptions& options) {
  std::string caption = trace_heading(lane) + '\n' + summary_of(lane);
  std::vector<Table> tables;
  if (!lane.timeline.sums.empty()) {
    const TimelineFigures figures(lane.timeline, 1);
    tables = {kernel_table(figures, options.top == 0 ? SIZE_MAX : options.top, "all kernels", true),
              class_table(figures, false)};
    caption += '\n' + products_sentence(lane);
  } else if (lane.timeline.events.empty()) {
    if (!lane.steps.empty()) tables.push_back(step_table(lane, options.top == 0 ? SIZE_MAX : options.top));
  } else {
    tables = tables_of(lane, TimelineFigures(lane.timeline, 1), options);
    for (const std::string& line :
         {steps_sentence(lane), products_sentence(lane), idle_sentence(lane), launches_sentence(lane.launches)})
      caption += '\n' + line;
    if (lane.products) caption += '\n' + rate_sentence(*lane.products);
  }
  for (const std::string& line : trace_faults(lane)) caption += '\n' + line;
  if (tables.empty()) tables.emplace_back();
  tables.front().caption = std::move(caption);
  std::ranges::move(tables, std::back_inserter(page.tables));
}

// Who waits for whom.
Table ranks_table(const std::vector<TraceLane>& lanes, const std::vector<TraceRank>& ranks) {
  Table table;
  table.title = "Ranks (late: until the last rank had begun a collective; last: collectives that the rank began last)";
  table.columns = {right("rank"),          right("busy %"),     right("kernels ms"), right("collectives ms"),
                   right("of it late ms"), right("exposed ms"), right("last"),       right("clock ahead us", 1),
                   left("file", 2)};
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const TraceLane& lane = lanes[i];
    const TraceRank rank = ranks.empty() ? TraceRank{} : ranks[i];
    const auto us = [](std::int64_t ns) { return fmt::format("{:.1f}", in_us(ns)); };
    table.add({lane.rank.value_or(static_cast<std::int64_t>(i)), share_text(lane.idle.busy_ns, lane.idle.wall_ns),
               ms_text(lane.kernels.time_ns), ms_text(lane.collectives.time_ns),
               rank.matched == 0 ? "-" : ms_text(rank.late_ns), ms_text(lane.collectives.exposed_ns),
               rank.matched == 0 ? "-" : std::to_string(rank.last), rank.matched == 0 ? "-" : us(rank.clock_ns),
               std::filesystem::path(lane.file).filename().string()});
  }
  if (ranks.empty()) {
    table.remark = "No collective is on two ranks or more, so nothing says who waits for whom.";
    return table;
  }
  const auto most = std::ranges::max_element(ranks, {}, &TraceRank::last);
  const auto place = static_cast<std::size_t>(most - ranks.begin());
  table.remark = fmt::format("Of {} rank {} began {} last. Clocks are compared by the ends of collectives.",
                             counted(most->matched, "matched collective", "matched collectives"),
                             lanes[place].rank.value_or(static_cast<std::int64_t>(place)), most->last);
  return table;
}

// A breakdown behind the file and the device.
Table csv_table(const TraceLane& lane, const TraceViewOptions& options) {
  Table rows = trace_rows(lane, options.only.value_or(TraceBreakdown::kernel), options.depth);
  Table table = with_columns({"file", "rank", "device"});
  std::ranges::move(rows.columns, std::back_inserter(table.columns));
  for (Row& row : rows.rows) {
    Cells cells = {lane.file, optional_cell(lane.rank), text_cell(lane.device)};
    std::ranges::move(row.cells, std::back_inserter(cells));
    table.add(std::move(cells));
  }
  return table;
}

Json rank_json(const TraceRank& rank) {
  return {{"matched", rank.matched},
          {"total_us", in_us(rank.time_ns)},
          {"late_us", in_us(rank.late_ns)},
          {"last", rank.last},
          {"clock_us", in_us(rank.clock_ns)}};
}

}  // namespace

TraceBreakdown trace_breakdown_from_name(std::string_view text) {
  return kTraceBreakdowns.parse(text, "'{}' is unknown");
}
std::string ms_text(std::int64_t ns) { return format_ms(static_cast<double>(ns) / 1e6); }
std::string_view name(TraceBreakdown breakdown) { return kTraceBreakdowns[breakdown]; }

std::string trace_heading(const TraceLane& lane) {
  std::string text = fmt::format("{} ({})", lane.file, lane.format);
  if (lane.rank) text += fmt::format(", rank {}", *lane.rank);
  if (lane.rank && lane.ranks) text += fmt::format(" of {}", *lane.ranks);
  if (!lane.device.empty()) text += fmt::format(", device {}", lane.device);
  if (!lane.selection.empty()) text += fmt::format(", only {}", lane.selection);
  return text;
}

std::vector<std::string> trace_faults(const TraceLane& lane) {
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < kTraceFaults; ++i)
    if (lane.faults[i] > 0)
      sentences.push_back(fmt::format(
          fmt::runtime(lane.faults[i] == 1 ? kFaultSentences[i].one : kFaultSentences[i].many), lane.faults[i]));
  return sentences;
}

Page trace_page(const std::vector<TraceLane>& lanes, const TraceViewOptions& options, Format format) {
  Page page;
  if (format == Format::csv) {
    for (const TraceLane& lane : lanes) page.tables.push_back(csv_table(lane, options));
    return page;
  }
  const std::vector<TraceRank> ranks = compare_ranks(lanes);
  if (!is_for_people(format)) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      Json document = trace_document(lanes[i], options);
      document["beside_other_ranks"] = ranks.empty() ? Json(nullptr) : rank_json(ranks[i]);
      page.documents.push_back(dump_json(document));
    }
    return page;
  }
  if (lanes.size() > 1) page.tables.push_back(ranks_table(lanes, ranks));
  for (const TraceLane& lane : lanes) add_lane(page, lane, options);
  return page;
}

}  // namespace ridgepoint::tables
