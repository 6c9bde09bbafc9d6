#include "inspect/memory/measure_memory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/files/temporary_folder.h"
#include "inspect/memory/to_snapshot.h"
#include "inspect/snapshot/analyse_snapshot.h"
#include "interchange/snapshot/reader/read_snapshot.h"
#include "models/transformer.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::int64_t kVocab = 50, kContext = 8, kWidth = 16, kFeedForward = 24, kLayers = 3, kHeads = 2, kBatch = 4;
const TransformerConfig kToy{"custom", kVocab, kContext, kWidth, kFeedForward, kLayers, kHeads};

RunConfig run_of(CompileOptions compile, AttentionVariant attention = AttentionVariant::composite) {
  TransformerConfig model = kToy;
  model.attention = attention;
  RunConfig config;
  config.device = "cpu";
  config.workload = std::make_shared<Transformer>(model, kBatch);
  config.compile = std::move(compile);
  config.warmup = 1;
  config.steps = 2;
  return config;
}

MemoryRun memory_of_run(const RunConfig& config) {
  std::optional<MemoryRun> run = measure_memory(config);
  EXPECT_EQ(run->run.status, RunStatus::ok) << run->run.error.message;
  return std::move(*run);
}

const HeldMemory* find_phase(const MemoryRun& run, Phase phase) {
  const auto found = std::ranges::find(run.peaks.phases, phase, &PhaseContents::phase);
  return found == run.peaks.phases.end() ? nullptr : &found->contents;
}

void expect_same_phase(const MemoryRun& run, Phase phase, const std::optional<std::int64_t>& counted) {
  const HeldMemory* held = find_phase(run, phase);
  ASSERT_EQ(held != nullptr, counted.has_value()) << name(phase);
  if (held != nullptr) {
    EXPECT_EQ(held->level.allocated_bytes, *counted) << name(phase);
  }
}

// The executor and the allocator count during the run; the history is replayed afterwards.
TEST(MeasureMemory, finds_in_the_history_what_the_allocator_and_the_executor_counted) {
  for (const Mode mode : kAllModes) {
    for (const Compile level : kAllCompiles) {
      for (const Checkpoint checkpoint : kAllCheckpoints) {
        for (const AttentionVariant attention : {AttentionVariant::composite, AttentionVariant::flash}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", name(mode), name(level), name(checkpoint), name(attention)));
          const MemoryRun run =
              memory_of_run(run_of({.mode = mode, .level = level, .checkpoint = checkpoint}, attention));
          const HeldMemory& peak = run.peaks.phases[run.peaks.highest].contents;
          EXPECT_EQ(peak.level.allocated_bytes, run.run.memory_bytes.peak_allocated);
          EXPECT_EQ(run.peaks.peak_reserved_bytes, run.run.memory_bytes.peak_reserved);
          EXPECT_EQ(run.peaks.before_backward ? run.peaks.before_backward->level.allocated_bytes : 0,
                    run.run.memory_bytes.before_backward.value_or(0));
          const PeakSection::Phases& counted = run.run.peaks->peak_by_phase;
          expect_same_phase(run, Phase::forward, counted.forward);
          expect_same_phase(run, Phase::loss, counted.loss);
          expect_same_phase(run, Phase::recompute, counted.recompute);
          expect_same_phase(run, Phase::backward, counted.backward);
          expect_same_phase(run, Phase::optimizer, counted.optimizer);
          EXPECT_EQ(run.run.peaks->peak_phase, name(run.peaks.phases[run.peaks.highest].phase));
          const CategoryBytes& by_category = peak.level.by_category;
          EXPECT_EQ(run.run.peaks->peak_by_category.activation,
                    by_category[static_cast<std::size_t>(MemoryCategory::activation)]);
          EXPECT_EQ(run.run.peaks->peak_by_category.temporary,
                    by_category[static_cast<std::size_t>(MemoryCategory::temporary)]);
        }
      }
    }
  }
}

TEST(MeasureMemory, takes_the_null_device_for_the_cpu_to_the_byte) {
  for (const Compile level : kAllCompiles) {
    RunConfig config = run_of({.mode = Mode::step, .level = level});
    const MemoryRun cpu = memory_of_run(config);
    config.device = "null";
    const MemoryRun null = memory_of_run(config);
    EXPECT_EQ(null.run.memory_bytes.peak_allocated, cpu.run.memory_bytes.peak_allocated) << name(level);
    EXPECT_EQ(null.history.events.size(), cpu.history.events.size()) << name(level);
  }
}

TEST(MeasureMemory, has_groups_that_add_up_to_the_level) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::step, .precision = Precision::bf16}));
  for (const PhaseContents& phase : run.peaks.phases) {
    std::size_t bytes = 0, rounding = 0;
    CategoryBytes by_category{};
    for (const MemoryGroup& group : phase.contents.groups) {
      bytes += group.bytes;
      rounding += group.rounding_bytes;
      by_category[static_cast<std::size_t>(group.category)] += group.bytes;
    }
    EXPECT_EQ(bytes, phase.contents.level.allocated_bytes);
    EXPECT_EQ(rounding, phase.contents.rounding_bytes());
    EXPECT_EQ(by_category, phase.contents.level.by_category);
    EXPECT_TRUE(std::ranges::is_sorted(phase.contents.groups, std::greater<>(), &MemoryGroup::bytes));
  }
}

TEST(MeasureMemory, says_where_blocks_come_from) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::step}));
  const HeldMemory& held = *run.peaks.before_backward;
  const auto group_of = [&](std::string_view op, std::string_view module) {
    const auto found = std::ranges::find_if(
        held.groups, [&](const MemoryGroup& group) { return group.op == op && group.module == module; });
    EXPECT_NE(found, held.groups.end()) << op << ' ' << module;
    return found == held.groups.end() ? MemoryGroup{.blocks = 1} : *found;
  };
  const MemoryGroup weights = group_of("div", "layers.*.attn.softmax");
  EXPECT_EQ(weights.formula, "4 B H S^2");
  EXPECT_EQ(weights.category, MemoryCategory::activation);
  EXPECT_EQ(weights.blocks, kLayers);
  EXPECT_EQ(weights.block_bytes() - weights.rounding_bytes / weights.blocks, 4 * kBatch * kHeads * kContext * kContext);
  EXPECT_THAT(weights.source, HasSubstr("attention.cpp:"));
  EXPECT_EQ(group_of("matmul", "lm_head").formula, "4 B S V");
  EXPECT_EQ(group_of("rope", "layers.*.attn.rope").formula, "4 B S D");  // H heads of width D / H
  const MemoryGroup parameter = group_of("parameter", "token_embeddings.weight");
  EXPECT_EQ(parameter.formula, "4 V D");
  EXPECT_EQ(parameter.category, MemoryCategory::parameter);
}

TEST(MeasureMemory, lists_the_largest_allocations_of_an_iteration_first) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::step}));
  ASSERT_GE(run.requests.size(), 3U);
  // The logits, and their gradient.
  EXPECT_EQ(run.requests[0].group.formula, "4 B S V");
  EXPECT_EQ(run.requests[1].group.formula, "4 B S V");
  EXPECT_EQ(run.requests[0].group.phase, Phase::forward);
  EXPECT_EQ(run.requests[1].group.phase, Phase::backward);
  const auto layer = std::ranges::find_if(run.requests, [](const MemoryRequest& request) {
    return request.group.op == "exp" && request.group.phase == Phase::forward;
  });
  ASSERT_NE(layer, run.requests.end());
  EXPECT_EQ(layer->group.blocks, kLayers);
  EXPECT_LE(layer->held, layer->group.blocks);
  for (const MemoryRequest& request : run.requests) EXPECT_NE(request.group.category, MemoryCategory::parameter);
}

TEST(MeasureMemory, knows_the_size_of_the_residual_stream) {
  for (const Compile level : kAllCompiles) {
    const MemoryRun run = memory_of_run(run_of({.mode = Mode::step, .level = level}));
    ASSERT_TRUE(run.residual) << name(level);
    EXPECT_EQ(run.residual->bytes, 4 * kBatch * kContext * kWidth);
    EXPECT_EQ(run.residual->formula, "4 B S D");
  }
}

TEST(MeasureMemory, has_phases_that_tile_each_iteration) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::step, .checkpoint = Checkpoint::block}));
  const MemoryHistory& history = run.history;
  ASSERT_EQ(history.iterations.size(), 3U);
  EXPECT_EQ(history.warmup, 1U);
  std::size_t phase = 0;
  for (std::size_t i = 0; i < history.iterations.size(); ++i) {
    std::size_t next = history.iterations[i].begin;
    std::int64_t next_ns = history.iterations[i].begin_ns;
    std::size_t recomputed = 0;
    for (; phase < history.phases.size() && history.phases[phase].iteration == i; ++phase) {
      EXPECT_EQ(history.phases[phase].begin, next);
      EXPECT_EQ(history.phases[phase].begin_ns, next_ns);
      next = history.phases[phase].end;
      next_ns = history.phases[phase].end_ns;
      recomputed += history.phases[phase].phase == Phase::recompute ? 1U : 0U;
    }
    EXPECT_EQ(next, history.iterations[i].end);
    EXPECT_EQ(next_ns, history.iterations[i].end_ns);
    EXPECT_GE(recomputed, static_cast<std::size_t>(kLayers));  // backward needs each block apart
  }
  EXPECT_EQ(phase, history.phases.size());
  EXPECT_EQ(history.iterations.back().end, history.events.size());
}

TEST(MeasureMemory, finds_that_a_training_forward_is_released_at_once) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::training_forward}));
  ASSERT_TRUE(run.sawtooth);
  EXPECT_EQ(run.sawtooth->cycles, 1U);
  // All that the last run saved is freed when the next begins.
  EXPECT_GT(run.sawtooth->height_bytes, 0);
  EXPECT_GT(run.sawtooth->fall_events, 3 * kLayers);
  EXPECT_EQ(run.sawtooth->segment_requests, 0U);
  ASSERT_TRUE(run.sawtooth->busy_share);
  EXPECT_GT(*run.sawtooth->busy_share, 0);
  EXPECT_LE(*run.sawtooth->busy_share, 1);
}

TEST(MeasureMemory, reports_a_device_that_is_too_small) {
  RunConfig config = run_of({.mode = Mode::step});
  config.device = "null";
  config.device_options.memory_limit_bytes = 4096;
  const std::optional<MemoryRun> run = measure_memory(config);
  EXPECT_EQ(run->run.status, RunStatus::oom);
  EXPECT_FALSE(run->has_figures());
}

TEST(MeasureMemory, refuses_a_history_without_end) {
  RunConfig config = run_of({.mode = Mode::step});
  config.device = "null";
  config.steps = 1'000'000'000;
  const std::optional<MemoryRun> run = measure_memory(config);
  EXPECT_EQ(run->run.status, RunStatus::error);
  EXPECT_THAT(run->run.error.message, HasSubstr("give fewer --warmup and --steps"));
}

TEST(MeasureMemory, stops_when_the_watcher_says_so) {
  EXPECT_FALSE(measure_memory(run_of({.mode = Mode::step}),
                              [](const StepProgress& at) { return at.stage != StepProgress::Stage::timing; }));
}

class SnapshotOfRun : public ::testing::TestWithParam<std::string> {};

TEST_P(SnapshotOfRun, is_read_back_to_the_byte) {
  for (const Compile level : {Compile::off, Compile::full}) {
    RunConfig config = run_of({.mode = Mode::step, .level = level});
    config.device = GetParam();
    const MemoryRun run = memory_of_run(config);
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "s.pickle";
    write_snapshot(path, to_snapshot(run));
    const Snapshot snapshot = read_snapshot(path);
    const SnapshotReport report = analyse_device(snapshot, 0);
    EXPECT_TRUE(report.history_complete);
    EXPECT_EQ(report.peak.allocated_bytes, run.run.memory_bytes.peak_allocated);
    EXPECT_EQ(report.peak.reserved_bytes, run.run.memory_bytes.peak_reserved);
    EXPECT_EQ(report.end.allocated_bytes, run.run.memory_bytes.allocated_at_end);
    EXPECT_EQ(report.leaks.leaked_bytes, 0U);
    std::vector<std::string> names;
    for (const SnapshotPhase& phase : report.phases) names.push_back(phase.name);
    for (const char* name : {"warm-up 1", "iteration 1", "iteration 2", "forward", "backward", "optimizer"})
      EXPECT_THAT(names, Contains(name));
    std::vector<std::string> origins;
    for (const MemoryShare& share : report.contents.origins) origins.push_back(share.name);
    EXPECT_THAT(origins, Contains(HasSubstr("parameter token_embeddings.weight")));
  }
}
INSTANTIATE_TEST_SUITE_P(devices, SnapshotOfRun, ::testing::Values("cpu", "null"));

}  // namespace
}  // namespace ridgepoint
