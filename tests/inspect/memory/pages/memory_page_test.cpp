#include "inspect/memory/pages/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/text/units.h"
#include "inspect/memory/pages/parts.h"
#include "models/transformer/transformer.h"
#include "support/matchers.h"
#include "support/records/csv_rows.h"
#include "support/records/made_snapshot.h"
#include "tables/table/render.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

MemoryRun run_on(const char* device, Mode mode = Mode::step) {
  RunConfig config;
  config.device = device;
  config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 16, 24, 3, 2}, 4);
  config.compile.mode = mode;
  config.warmup = 1;
  config.steps = 2;
  return *measure_memory(config);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string shown(const MemoryRun& run, Format format = Format::table, const MemoryViewOptions& options = {}) {
  return render(format, memory_page(std::span(&run, 1), options, format), 120);
}

TEST(MemoryPage, has_every_part_of_a_run) {
  // Where the host is interrupted, a phase may be too short for its name on the axis of time.
  const std::string page = shown(run_on("cpu"), Format::table, {.axis = TimelineAxis::events});
  for (const char* part :
       {"before backward", "at the peak, in", "Timeline", "|backward", "reserved", "What each phase's peak is made of",
        "optimizer state", "Saved for backward", "At the peak, by op and module", "The largest allocations", "4 B S V",
        "One activation of the residual stream has 4 B S D = 2.00 KiB.", "Rise and fall", "Verdict:"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST(MemoryPage, says_what_lies_on_the_host) {
  MemoryRun run = run_on("null");
  EXPECT_THAT(shown(run), Not(HasSubstr("memory of the host")));
  run.run.memory_bytes.host = 3 << 20;
  run.run.offload = Offload::optimizer | Offload::activations;
  EXPECT_THAT(shown(run), HasSubstr("3.00 MiB lie in the memory of the host (--offload optimizer,activations)."));
  run.run.memory_bytes.disk = 5 << 20;
  run.run.offload_folder = "/mnt/nvme";
  EXPECT_THAT(shown(run), HasSubstr("activations), and 5.00 MiB in a file\n(--offload-folder /mnt/nvme)."));
}

TEST(MemoryPage, tells_the_ranks_of_several_runs_apart_by_what_varies) {
  std::vector<MemoryRun> runs;
  for (const std::int64_t bucket_bytes : {kEachGradient, kAllGradients}) {
    MemoryRun& run = runs.emplace_back(run_on("null"));
    run.run.training_step->parallel.bucket_bytes = bucket_bytes;
    run.ranks.resize(2);
  }
  const Table table = rank_table(runs);
  EXPECT_EQ(table.columns.front().heading, "buckets") << "and no column of shards, which are the same";
  EXPECT_EQ(table.rows.front().cells.front(), Cell("one gradient"));
  EXPECT_EQ(table.rows.back().cells.front(), Cell("all gradients"));
  EXPECT_EQ(rank_table(std::span(runs).first(1)).columns.front().heading, "rank");
}

TEST(MemoryPage, shows_what_one_block_saves) {
  const MemoryRun run = run_on("null");
  const std::string page = shown(run);
  EXPECT_THAT(page, AllOf(HasSubstr("Saved for backward by one block, layers.1"), HasSubstr("layers.1.attn.rope"),
                          HasSubstr("layers.1 saves 33.5 KiB (32.5 KiB requested) for backward. The gradients of"),
                          HasSubstr("KiB (8.62 KiB requested).")));
  EXPECT_EQ(count(page, "others; --top 0 shows all"), 3U);
  EXPECT_EQ(count(shown(run, Format::table, {.top = 0}), "others; --top 0 shows all"), 0U);
  EXPECT_THAT(shown(run_on("null", Mode::forward)), Not(HasSubstr("by one block")));
}

TEST(MemoryPage, says_what_the_common_viewer_counts) {
  const MemoryRun run = run_on("null");
  EXPECT_THAT(shown(run), HasSubstr(fmt::format("draws requested bytes; its peak is {}.",
                                                format_bytes(run.memory.report.peak.requested_bytes))));
}

TEST(MemoryPage, has_no_times_of_the_null_device) {
  const std::string page = shown(run_on("null"));
  EXPECT_THAT(page,
              AllOf(HasSubstr("The axis is steps of the viewer"), HasSubstr("No verdict"), Not(HasSubstr("In time:"))));
}

TEST(MemoryPage, draws_no_wider_than_it_is_told) {
  const MemoryRun run = run_on("null");
  for (const std::size_t width : {40U, 80U, 100U}) {
    const Table chart =
        timeline_chart(make_timeline(run.snapshot, run.memory, TimelineAxis::events, timeline_columns(width)));
    std::size_t widest = 0;
    for (const Row& row : chart.rows) widest = std::max(widest, display_width(std::get<std::string>(row.cells[1])));
    EXPECT_EQ(widest, width - 12) << width;
  }
}

TEST(MemoryPage, draws_the_levels_in_proportion) {
  // One block of a quarter of the segment, then one of three quarters: of each category one.
  MadeSnapshot made;
  const auto add = [&](MemoryEventKind kind, std::size_t kib, const char* category) {
    ++made.time_us;
    made.event(kind, kib, {.size_bytes = kib * 1024, .rounding_bytes = 0, .category = made.category(category)});
  };
  add(MemoryEventKind::segment_alloc, 16, "unknown");
  made.snapshot.settings.counted_from_us = ++made.time_us;
  made.mark("forward", true);
  add(MemoryEventKind::alloc, 4, "parameter");
  add(MemoryEventKind::alloc, 8, "activation");
  const Table chart = timeline_chart(
      make_timeline(made.snapshot, analyse_memory(made.snapshot, 0), TimelineAxis::events, timeline_columns(32)));
  const auto line = [&](std::size_t row) { return std::get<std::string>(chart.rows[row].cells[1]); };
  // 16 rows of 1 KiB; the first column is before the activation, the second after it.
  EXPECT_THAT(line(0), HasSubstr("─"));
  EXPECT_THAT(line(3), Not(HasSubstr("▒")));
  EXPECT_EQ(line(4).find("▒"), line(11).find("▒"));
  EXPECT_THAT(line(11), Not(HasSubstr("█")));
  EXPECT_THAT(line(12), AllOf(HasSubstr("█"), Not(HasSubstr("▒"))));
}

TEST(MemoryPage, is_a_table_of_peaks_for_several_runs) {
  const std::vector<MemoryRun> runs = {run_on("null", Mode::forward), run_on("null", Mode::step)};
  const std::string page = render(Format::table, memory_page(runs, {}, Format::table), 120);
  EXPECT_THAT(page, AllOf(HasSubstr("peak memory"), HasSubstr("peak in"), HasSubstr("forward"), HasSubstr("step"),
                          Not(HasSubstr("Timeline"))));
  const std::string csv = render(Format::csv, memory_page(runs, {}, Format::csv));
  EXPECT_THAT(csv, HasSubstr("peak_by_phase.forward"));
}

TEST(MemoryPage, has_all_figures_in_json) {
  const MemoryRun run = run_on("cpu");
  const nlohmann::json json = nlohmann::json::parse(memory_json(run).dump());
  EXPECT_EQ(json["command"], "memory");
  const nlohmann::json& memory = json["memory"];
  std::size_t highest = 0;
  for (const nlohmann::json& phase : memory["phases"])
    highest = std::max(highest, phase["allocated_bytes"].get<std::size_t>());
  EXPECT_EQ(highest, json["memory_bytes"]["peak_allocated"].get<std::size_t>());
  EXPECT_EQ(memory["before_backward"]["allocated_bytes"], json["memory_bytes"]["before_backward"]);
  EXPECT_EQ(memory["residual_activation"]["formula"], "4 B S D");
  EXPECT_EQ(memory["block"]["name"], "layers.1");
  std::size_t saved = 0;
  for (const nlohmann::json& group : memory["block"]["saved"]) saved += group["bytes"].get<std::size_t>();
  EXPECT_EQ(memory["block"]["saved_bytes"], saved);
  EXPECT_EQ(memory["block"]["gradient_bytes"], 4 * (4 * 16 * 16 + 3 * 16 * 24) + 2 * 512) << "norms are rounded";
  EXPECT_EQ(memory["block"]["requested_gradient_bytes"], 4 * (4 * 16 * 16 + 3 * 16 * 24 + 2 * 16));
  EXPECT_EQ(memory["largest_allocations"][0]["formula"], "4 B S V");
  EXPECT_EQ(memory["sawtooth"]["allocator_retries"], 0);
}

TEST(MemoryPage, says_no_times_where_nothing_was_computed) {
  MemoryRun run = run_on("null");
  run.memory.report.sawtooth.segment_requests = 1;
  EXPECT_THAT(shown(run), HasSubstr("asked the device for 1 segment (0 after it gave others back). No verdict"));
  const nlohmann::json sawtooth = nlohmann::json::parse(memory_json(run).dump())["memory"]["sawtooth"];
  for (const char* figure : {"rise_ms", "fall_ms", "allocator_share"})
    EXPECT_TRUE(sawtooth[figure].is_null()) << figure;
  const MemoryReport& report = run.memory.report;
  const nlohmann::json file = nlohmann::json::parse(snapshot_json({"run", "pickle", {report}}, report).dump());
  EXPECT_TRUE(file["begin_us"].is_null() && file["peak"]["time_us"].is_null() && file["phases"][0]["end_us"].is_null());
}

TEST(MemoryPage, has_the_error_of_a_run_that_failed) {
  MemoryRun failed;
  failed.run.status = RunStatus::oom;
  failed.run.error.message = "too small";
  EXPECT_THAT(shown(failed), HasSubstr("oom: too small"));
  EXPECT_TRUE(memory_json(failed)["memory"].is_null());
}

TEST(TimelineCsv, has_a_line_for_each_event) {
  const MemoryRun run = run_on("cpu");
  const std::vector<CsvRow> rows = csv_rows(timeline_csv(run));
  ASSERT_EQ(rows.size(), run.memory.report.events);
  std::int64_t allocated = 0, peak = 0;
  for (const CsvRow& row : rows) {
    const std::int64_t bytes = std::stoll(row.at("bytes"));
    if (row.at("action") == "alloc") allocated += bytes;
    if (row.at("action") == "free") allocated -= bytes;
    EXPECT_EQ(std::stoll(row.at("allocated_bytes")), allocated);
    peak = std::max(peak, allocated);
  }
  EXPECT_EQ(peak, run.run.memory_bytes.peak_allocated);
  EXPECT_EQ(rows.back().at("iteration"), "3");
  EXPECT_EQ(rows.back().at("phase"), "optimizer");
}

TEST(TimelineSvg, is_well_formed_and_has_the_phases) {
  for (const TimelineAxis axis : {TimelineAxis::time, TimelineAxis::events}) {
    MemoryRun run = run_on("cpu");
    run.run.device.name = "<A & B>";
    const std::string svg = timeline_svg(run, axis);
    EXPECT_TRUE(svg.starts_with("<svg"));
    EXPECT_TRUE(svg.ends_with("</svg>\n"));
    EXPECT_THAT(svg, AllOf(HasSubstr("role=\"img\""), HasSubstr("<title>Memory of custom step, fp32</title>"),
                           HasSubstr("prefers-color-scheme:dark"), HasSubstr("reserved"),
                           HasSubstr(" requested</text>"), HasSubstr("&lt;A &amp; B&gt;"), Not(HasSubstr("nan"))));
    // The legend names every phase, and a phase has one shade in all iterations.
    for (const char* phase : {"forward", "optimizer"}) EXPECT_THAT(svg, HasSubstr(fmt::format(">{}</text>", phase)));
    const std::size_t bands = count(svg, "<title>forward</title>");
    if (axis == TimelineAxis::events) {
      EXPECT_EQ(bands, 3U);  // two iterations and the legend
      EXPECT_EQ(count(svg, "class=\"b0\""), bands);
    }
    EXPECT_EQ(std::ranges::count(svg, '<'), std::ranges::count(svg, '>'));
    EXPECT_THAT(svg, HasSubstr(axis == TimelineAxis::time ? "ms by the host" : "not time"));
  }
}

}  // namespace
}  // namespace ridgepoint::tables
