#include "inspect/memory/run/measure_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <sstream>
#include <tuple>
#include <utility>

#include "core/files/temporary_folder.h"
#include "inspect/memory/timeline.h"
#include "interchange/snapshot/reader/read_snapshot.h"
#include "interchange/snapshot/write_snapshot.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kVocab = 50, kContext = 8, kWidth = 16, kFeedForward = 24, kLayers = 3, kHeads = 2, kBatch = 4;
const TransformerConfig kToy{"custom", kVocab, kContext, kWidth, kFeedForward, kLayers, kHeads};

RunConfig run_of(CompileOptions compile, AttentionVariant attention = AttentionVariant::composite) {
  TransformerConfig model = kToy;
  model.attention = attention;
  return {.device = "cpu",
          .workload = std::make_shared<Transformer>(model, kBatch),
          .compile = std::move(compile),
          .warmup = 1,
          .steps = 2};
}

MemoryRun memory_of_run(const RunConfig& config) {
  std::optional<MemoryRun> run = measure_memory(config);
  EXPECT_EQ(run->run.status, RunStatus::ok) << run->run.error.message;
  return std::move(*run);
}

const MemoryContents* find_phase(const MemoryRun& run, Phase phase) {
  const std::vector<PhasePeak>& peaks = run.memory.report.phase_peaks;
  const auto found = std::ranges::find(peaks, name(phase), &PhasePeak::phase);
  return found == peaks.end() ? nullptr : &found->contents;
}

void expect_same_phase(const MemoryRun& run, Phase phase, const std::optional<std::int64_t>& counted) {
  const MemoryContents* held = find_phase(run, phase);
  ASSERT_EQ(held != nullptr, counted.has_value()) << name(phase);
  if (held != nullptr) {
    EXPECT_EQ(held->levels.allocated_bytes, *counted) << name(phase);
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
          const MemoryReport& report = run.memory.report;
          EXPECT_EQ(report.peak.allocated_bytes, run.run.memory_bytes.peak_allocated);
          EXPECT_EQ(report.contents.levels.allocated_bytes, run.run.memory_bytes.peak_allocated);
          EXPECT_EQ(report.peak.reserved_bytes, run.run.memory_bytes.peak_reserved);
          EXPECT_EQ(report.peak.requested_bytes, run.run.memory_bytes.peak_requested.value_or(-1));
          EXPECT_EQ(report.before_backward ? report.before_backward->levels.allocated_bytes : 0,
                    run.run.memory_bytes.before_backward.value_or(0));
          const PeakSection::Phases& counted = run.run.peaks->peak_by_phase;
          expect_same_phase(run, Phase::forward, counted.forward);
          expect_same_phase(run, Phase::loss, counted.loss);
          expect_same_phase(run, Phase::recompute, counted.recompute);
          expect_same_phase(run, Phase::backward, counted.backward);
          expect_same_phase(run, Phase::optimizer, counted.optimizer);
          EXPECT_EQ(run.run.peaks->peak_phase, report.peak_phase());
          EXPECT_EQ(run.run.peaks->peak_by_category.activation, report.contents.bytes_of("activation"));
          EXPECT_EQ(run.run.peaks->peak_by_category.temporary, report.contents.bytes_of("temporary"));
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
    EXPECT_EQ(null.memory.report.events, cpu.memory.report.events) << name(level);
  }
}

TEST(MeasureMemory, has_groups_that_add_up_to_the_level) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::step, .precision = Precision::bf16}));
  EXPECT_FALSE(run.memory.report.phase_peaks.empty());
  for (const PhasePeak& phase : run.memory.report.phase_peaks) {
    std::size_t bytes = 0, rounding = 0;
    std::map<std::string, std::size_t> by_category;
    for (const MemoryGroup& group : phase.contents.groups) {
      bytes += group.bytes;
      rounding += group.rounding_bytes;
      by_category[group.category] += group.bytes;
    }
    EXPECT_EQ(bytes, phase.contents.levels.allocated_bytes);
    EXPECT_EQ(rounding, phase.contents.rounding_bytes());
    for (const auto& [category, sum] : by_category) EXPECT_EQ(sum, phase.contents.bytes_of(category)) << category;
    EXPECT_TRUE(std::ranges::is_sorted(phase.contents.groups, std::greater<>(), &MemoryGroup::bytes));
  }
}

TEST(MeasureMemory, says_where_blocks_come_from) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::step}));
  const MemoryContents& held = *run.memory.report.before_backward;
  const auto group_of = [&](std::string_view op, std::string_view module) {
    const auto found = std::ranges::find_if(
        held.groups, [&](const MemoryGroup& group) { return group.op == op && group.module == module; });
    EXPECT_NE(found, held.groups.end()) << op << ' ' << module;
    return found == held.groups.end() ? MemoryGroup{.blocks = 1} : *found;
  };
  const MemoryGroup weights = group_of("div", "layers.*.attn.softmax");
  EXPECT_EQ(weights.formula, "4 B H S^2");
  EXPECT_EQ(weights.category, "activation");
  EXPECT_EQ(weights.blocks, kLayers);
  EXPECT_EQ(weights.block_bytes() - weights.rounding_bytes / weights.blocks, 4 * kBatch * kHeads * kContext * kContext);
  EXPECT_THAT(weights.source, HasSubstr("attention.cpp:"));
  EXPECT_EQ(group_of("matmul", "lm_head").formula, "4 B S V");
  EXPECT_EQ(group_of("rope", "layers.*.attn.rope").formula, "4 B S D");  // H heads of width D / H
  const MemoryGroup parameter = group_of("parameter", "token_embeddings.weight");
  EXPECT_EQ(parameter.formula, "4 V D");
  EXPECT_EQ(parameter.category, "parameter");
}

// "4 B S D / H" with the sizes of kToy; -1 for another symbol.
std::int64_t value_of(const std::string& formula) {
  const std::map<std::string, std::int64_t> sizes = {{"B", kBatch}, {"S", kContext},     {"D", kWidth},
                                                     {"V", kVocab}, {"F", kFeedForward}, {"H", kHeads}};
  std::istringstream words(formula);
  std::int64_t value = 1;
  bool divides = false;
  for (std::string word; words >> word;) {
    const std::string symbol = word.substr(0, word.find('^'));
    const std::int64_t power = word.size() > symbol.size() ? std::stoll(word.substr(symbol.size() + 1)) : 1;
    const bool is_number = std::isdigit(static_cast<unsigned char>(symbol[0])) != 0;
    if (word != "/" && !is_number && !sizes.contains(symbol)) return -1;
    const std::int64_t size = word == "/" ? 1 : is_number ? std::stoll(symbol) : sizes.at(symbol);
    for (std::int64_t i = 0; i < power; ++i) value = divides ? value / size : value * size;
    divides = word == "/";
  }
  return value;
}

// Heads of keys are narrower than D, joined matrices wider than F, and inputs have the sequences of all micro-batches.
TEST(MeasureMemory, has_formulas_of_as_many_bytes_as_were_asked_for) {
  for (const Compile level : {Compile::off, Compile::full}) {
    RunConfig config = run_of({.mode = Mode::step, .level = level, .accumulate = 2});
    TransformerConfig model = kToy;
    model.architecture.kv_heads = 1;
    config.workload = std::make_shared<Transformer>(model, kBatch);
    const MemoryRun run = memory_of_run(config);
    int checked = 0;
    for (const PhasePeak& phase : run.memory.report.phase_peaks) {
      for (const MemoryGroup& group : phase.contents.groups) {
        const std::int64_t value = group.formula.empty() ? -1 : value_of(group.formula);
        if (value < 0) continue;
        EXPECT_EQ(value, group.block_bytes() - group.rounding_bytes / group.blocks)
            << group.formula << ' ' << group.module << ' ' << group.op;
        ++checked;
      }
    }
    EXPECT_GT(checked, 100);
  }
}

TEST(MeasureMemory, lists_the_largest_allocations_of_an_iteration_first) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::step}));
  ASSERT_GE(run.requests.size(), 3U);
  // The logits, and their gradient.
  EXPECT_EQ(run.requests[0].group.formula, "4 B S V");
  EXPECT_EQ(run.requests[1].group.formula, "4 B S V");
  EXPECT_EQ(run.requests[0].group.phase, "forward");
  EXPECT_EQ(run.requests[1].group.phase, "backward");
  const auto layer = std::ranges::find_if(run.requests, [](const MemoryRequest& request) {
    return request.group.op == "exp" && request.group.phase == "forward";
  });
  ASSERT_NE(layer, run.requests.end());
  EXPECT_EQ(layer->group.blocks, kLayers);
  EXPECT_LE(layer->held, layer->group.blocks);
  for (const MemoryRequest& request : run.requests) EXPECT_NE(request.group.category, "parameter");
}

TEST(MeasureMemory, knows_the_size_of_the_residual_stream) {
  for (const Compile level : kAllCompiles) {
    const MemoryRun run = memory_of_run(run_of({.mode = Mode::step, .level = level}));
    ASSERT_TRUE(run.residual) << name(level);
    EXPECT_EQ(run.residual->bytes, 4 * kBatch * kContext * kWidth);
    EXPECT_EQ(run.residual->formula, "4 B S D");
  }
}

// By hand, of fp32 and plain attention: 8 results of B S D (two norms, query and key after their rotation, value,
// heads, two residual sums), 4 of B S F, exponentials and weights, a number a row of both norms and of softmax.
TEST(MeasureMemory, knows_what_one_block_saves_to_the_byte) {
  constexpr std::int64_t kTokens = 4 * 256, kTinyWidth = 128, kTinyFeedForward = 384, kTinyHeads = 4;
  constexpr std::int64_t kScores = kTinyHeads * kTokens * 256;
  const std::int64_t saved = 4 * (8 * kTokens * kTinyWidth + 4 * kTokens * kTinyFeedForward + 2 * kScores +
                                  2 * kTokens + kTinyHeads * kTokens);
  const std::int64_t gradients = 4 * (4 * kTinyWidth * kTinyWidth + 3 * kTinyWidth * kTinyFeedForward + 2 * kTinyWidth);
  for (const Mode mode : {Mode::training_forward, Mode::forward_backward, Mode::step}) {
    RunConfig config = run_of({.mode = mode});
    config.device = "null";
    config.workload = std::make_shared<Transformer>(transformer_preset("tiny"), 4);
    const MemoryRun run = memory_of_run(config);
    ASSERT_TRUE(run.memory.report.block) << name(mode);
    const BlockContents& block = *run.memory.report.block;
    EXPECT_EQ(block.name, "layers.1");
    EXPECT_EQ(block.saved.bytes_of("activation"), saved) << name(mode);
    EXPECT_EQ(block.gradient_bytes.value_or(0), runs_backward(mode) ? gradients : 0) << name(mode);
    EXPECT_EQ(block.saved.groups[0].module, "layers.1.attn.softmax");
    EXPECT_EQ(block.saved.groups[0].bytes, 4 * kScores);
  }
}

// Blocks are alike, so each saves a third; with fusion, of weights that are stored in bf16 too.
TEST(MeasureMemory, has_groups_of_a_block_that_add_up_to_the_share_of_its_layer) {
  for (const Compile level : kAllCompiles) {
    const MemoryRun run = memory_of_run(run_of({.mode = Mode::step, .precision = Precision::bf16, .level = level}));
    std::uint64_t of_layers = 0;
    for (const MemoryGroup& group : run.memory.report.before_backward->groups)
      of_layers += group.category == "activation" && group.module.starts_with("layers.*") ? group.bytes : 0;
    ASSERT_TRUE(run.memory.report.block) << name(level);
    const BlockContents& block = *run.memory.report.block;
    EXPECT_EQ(block.name, "layers.1") << name(level);
    std::uint64_t of_block = 0;
    for (const MemoryGroup& group : block.saved.groups) of_block += group.bytes;
    EXPECT_EQ(of_block, block.saved.bytes_of("activation"));
    // The last layer does not save what only the next one would read, and fusion joins nodes of neighbours.
    EXPECT_NEAR(static_cast<double>(of_layers), static_cast<double>(kLayers * of_block), 5e3) << name(level);
  }
}

TEST(MeasureMemory, has_no_block_where_nothing_is_saved_for_backward) {
  EXPECT_FALSE(memory_of_run(run_of({.mode = Mode::forward})).memory.report.block);
}

TEST(MeasureMemory, has_phases_that_tile_each_iteration) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::step, .checkpoint = Checkpoint::block}));
  const std::vector<MemoryPhase>& phases = run.memory.report.phases;
  std::vector<std::string> iterations;
  std::size_t i = 0;
  while (i < phases.size()) {
    const MemoryPhase& iteration = phases[i++];
    iterations.push_back(iteration.name);
    EXPECT_EQ(iteration.is_counted, iterations.size() > 1);
    MemoryMoment next = iteration.begin;
    std::size_t recomputed = 0;
    for (; i < phases.size() && phases[i].depth > 0; ++i) {
      EXPECT_EQ(phases[i].begin.moment, next.moment);
      EXPECT_EQ(phases[i].begin.time_us, next.time_us);
      next = phases[i].end;
      recomputed += phases[i].name == "recompute" ? 1U : 0U;
    }
    EXPECT_EQ(iteration.end.moment, next.moment);
    EXPECT_GE(iteration.end.time_us, next.time_us);            // the host waits for the device
    EXPECT_GE(recomputed, static_cast<std::size_t>(kLayers));  // backward needs each block apart
  }
  EXPECT_THAT(iterations, ElementsAre("warm-up 1", "iteration 1", "iteration 2"));
  EXPECT_EQ(run.memory.report.window.end.moment, run.memory.report.events);
}

TEST(MeasureMemory, finds_that_a_training_forward_is_released_at_once) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::training_forward}));
  const Sawtooth& sawtooth = run.memory.report.sawtooth;
  EXPECT_EQ(sawtooth.cycles, 1U);
  // All that the last run saved is freed when the next begins.
  EXPECT_GT(sawtooth.height_bytes, 0);
  EXPECT_GT(sawtooth.fall_events, 3 * kLayers);
  EXPECT_EQ(sawtooth.segment_requests, 0U);
  ASSERT_TRUE(sawtooth.busy_share);
  EXPECT_GT(*sawtooth.busy_share, 0);
  EXPECT_LE(*sawtooth.busy_share, 1);
}

TEST(MeasureMemory, reports_a_device_that_is_too_small) {
  RunConfig config = run_of({.mode = Mode::step});
  config.device = "null";
  config.device_options.memory_limit_bytes = 4096;
  const std::optional<MemoryRun> run = measure_memory(config);
  EXPECT_EQ(run->run.status, RunStatus::oom);
  EXPECT_FALSE(run->has_figures());
}

TEST(MeasureMemory, keeps_the_history_up_to_the_request_that_failed) {
  for (const bool run_anyway : {false, true}) {  // a null device walks a plan that does not fit
    for (const AllocatorKind allocator : {AllocatorKind::caching, AllocatorKind::arena}) {
      SCOPED_TRACE(fmt::format("{} {}", run_anyway, name(allocator)));
      RunConfig config = run_of({.mode = Mode::step});
      TransformerConfig model = kToy;
      model.vocab = 8000;  // several segments
      config.workload = std::make_shared<Transformer>(model, 32);
      config.allocator = allocator;
      config.run_anyway = run_anyway;
      const MemoryRun whole = memory_of_run(config);
      config.device_options.memory_limit_bytes = whole.run.memory_bytes.peak_allocated.value() - 1;
      const std::optional<MemoryRun> run = measure_memory(config);
      EXPECT_EQ(run->run.status, RunStatus::oom);
      ASSERT_TRUE(run->has_events());
      const MemoryReport& report = run->memory.report;
      ASSERT_EQ(report.out_of_memory.size(), 1U);
      EXPECT_EQ(report.out_of_memory[0].when.moment, report.events);  // nothing comes after it
      EXPECT_EQ(report.out_of_memory[0].requested_bytes, run->run.error.requested_bytes.value());
      EXPECT_EQ(report.out_of_memory[0].device_free_bytes,
                static_cast<std::uint64_t>(run->run.error.free_bytes.value()));
      EXPECT_EQ(report.end.allocated_bytes, report.out_of_memory[0].held.levels.allocated_bytes);
      if (allocator == AllocatorKind::arena) continue;  // asks for everything at once
      ASSERT_FALSE(report.phases.empty());
      EXPECT_EQ(report.phases.front().name, "warm-up 1");
      EXPECT_EQ(report.phases.front().end.moment, report.events);
      EXPECT_EQ(report.has_times, run_anyway);
    }
  }
}

// The path, the line and the name of each frame of what the first event makes that has such a frame.
std::vector<std::tuple<std::string, int, std::string>> stack_with(const Snapshot& snapshot, const std::string& frame) {
  for (const SnapshotOrigin& origin : snapshot.origins) {
    if (origin.frame == kNoFrame || snapshot.texts[snapshot.frames[origin.frame].name] != frame) continue;
    std::vector<std::uint32_t> numbers = snapshot.stacks[origin.around];
    numbers.insert(numbers.begin(), origin.frame);
    std::vector<std::tuple<std::string, int, std::string>> stack;
    for (const std::uint32_t number : numbers) {
      const SnapshotFrame& found = snapshot.frames[number];
      stack.emplace_back(snapshot.texts[found.filename], found.line, snapshot.texts[found.name]);
    }
    return stack;
  }
  return {};
}

TEST(MeasureMemory, has_the_modules_around_an_op_as_frames) {
  const MemoryRun run = memory_of_run(run_of({.mode = Mode::step}));
  for (const auto& [frame, around] : std::map<std::string, std::vector<std::string>>{
           {"matmul of layers.1.attn.q_proj", {"layers.1.attn.q_proj", "layers.1.attn", "layers.1", "forward"}},
           {"parameter layers.0.ffn.w2.weight", {"layers.0.ffn.w2", "layers.0.ffn", "layers.0", "forward"}},
           {"data inputs", {"forward"}}}) {
    const auto stack = stack_with(run.snapshot, frame);
    ASSERT_EQ(stack.size(), around.size() + 1) << frame;
    for (std::size_t i = 0; i < stack.size(); ++i) {
      const auto& [path, line, name] = stack[i];
      EXPECT_THAT(path, StartsWith("src/models/")) << name;
      EXPECT_GT(line, 0) << name;
      EXPECT_EQ(name, i == 0 ? frame : around[i - 1]);
    }
  }
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

// A run and its file have the same figures, but for the work of the device.
class SnapshotOfRun : public ::testing::TestWithParam<std::string> {};

void expect_same(const MemoryLevels& of_run, const MemoryLevels& of_file) {
  EXPECT_EQ(of_run.allocated_bytes, of_file.allocated_bytes);
  EXPECT_EQ(of_run.active_bytes, of_file.active_bytes);
  EXPECT_EQ(of_run.reserved_bytes, of_file.reserved_bytes);
  EXPECT_EQ(of_run.requested_bytes, of_file.requested_bytes);
}
void expect_same(const MemoryMoment& of_run, const MemoryMoment& of_file) {
  EXPECT_EQ(of_run.moment, of_file.moment);
  EXPECT_EQ(of_run.time_us, of_file.time_us);
}

void expect_same(const MemoryContents& of_run, const MemoryContents& of_file) {
  expect_same(of_run.at, of_file.at);
  expect_same(of_run.levels, of_file.levels);
  const auto expect_same_shares = [](const std::vector<MemoryShare>& a, const std::vector<MemoryShare>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_EQ(std::tuple(a[i].name, a[i].bytes, a[i].blocks), std::tuple(b[i].name, b[i].bytes, b[i].blocks));
  };
  expect_same_shares(of_run.categories, of_file.categories);
  expect_same_shares(of_run.origins, of_file.origins);
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string, std::uint64_t>;
  const auto summed = [](const MemoryContents& contents) {
    std::map<Key, std::pair<std::uint64_t, std::uint64_t>> sums;
    for (const MemoryGroup& group : contents.groups) {
      auto& [blocks, rounding] =
          sums[{group.category, group.phase, group.module, group.op, group.source, group.formula, group.block_bytes()}];
      blocks += group.blocks;
      rounding += group.rounding_bytes;
    }
    return sums;
  };
  EXPECT_EQ(summed(of_run), summed(of_file));
}

void expect_same(const Sawtooth& of_run, const Sawtooth& of_file) {
  EXPECT_EQ(of_run.cycles, of_file.cycles);
  EXPECT_EQ(of_run.height_bytes, of_file.height_bytes);
  EXPECT_EQ(of_run.rise_ms, of_file.rise_ms);
  EXPECT_EQ(of_run.fall_ms, of_file.fall_ms);
  EXPECT_EQ(of_run.rise_events, of_file.rise_events);
  EXPECT_EQ(of_run.fall_events, of_file.fall_events);
  EXPECT_EQ(of_run.rise_steps, of_file.rise_steps);
  EXPECT_EQ(of_run.fall_steps, of_file.fall_steps);
  EXPECT_EQ(of_run.segment_requests, of_file.segment_requests);
  EXPECT_EQ(of_run.retries, of_file.retries);
  EXPECT_EQ(of_run.allocator_share, of_file.allocator_share);
}

void expect_same(const Timeline& of_run, const Timeline& of_file) {
  EXPECT_EQ(of_run.length, of_file.length);
  ASSERT_EQ(of_run.columns.size(), of_file.columns.size());
  for (std::size_t i = 0; i < of_run.columns.size(); ++i) {
    EXPECT_EQ(of_run.columns[i].layer_bytes, of_file.columns[i].layer_bytes) << i;
    EXPECT_EQ(of_run.columns[i].reserved_bytes, of_file.columns[i].reserved_bytes) << i;
    EXPECT_EQ(of_run.columns[i].phase, of_file.columns[i].phase) << i;
    EXPECT_EQ(of_run.columns[i].iteration, of_file.columns[i].iteration) << i;
  }
}

void expect_same(const MemoryReport& of_run, const MemoryReport& of_file) {
  EXPECT_EQ(of_run.events, of_file.events);
  EXPECT_EQ(of_run.has_times, of_file.has_times);
  EXPECT_EQ(of_run.segments, of_file.segments);
  EXPECT_EQ(of_run.blocks, of_file.blocks);
  expect_same(of_run.window.begin, of_file.window.begin);
  expect_same(of_run.window.end, of_file.window.end);
  expect_same(of_run.start, of_file.start);
  expect_same(of_run.end, of_file.end);
  expect_same(of_run.peak, of_file.peak);
  expect_same(of_run.contents, of_file.contents);
  EXPECT_EQ(of_run.peak_phase(), of_file.peak_phase());
  EXPECT_TRUE(of_file.has_modules);
  ASSERT_EQ(of_run.phases.size(), of_file.phases.size());
  for (std::size_t i = 0; i < of_run.phases.size(); ++i) {
    EXPECT_EQ(of_run.phases[i].name, of_file.phases[i].name);
    EXPECT_EQ(of_run.phases[i].peak_bytes, of_file.phases[i].peak_bytes);
    expect_same(of_run.phases[i].begin, of_file.phases[i].begin);
    expect_same(of_run.phases[i].end, of_file.phases[i].end);
  }
  ASSERT_EQ(of_run.phase_peaks.size(), of_file.phase_peaks.size());
  for (std::size_t i = 0; i < of_run.phase_peaks.size(); ++i)
    expect_same(of_run.phase_peaks[i].contents, of_file.phase_peaks[i].contents);
  ASSERT_EQ(of_run.before_backward.has_value(), of_file.before_backward.has_value());
  if (of_run.before_backward) expect_same(*of_run.before_backward, *of_file.before_backward);
  EXPECT_EQ(of_run.fragmentation.at_end_bytes, of_file.fragmentation.at_end_bytes);
  EXPECT_EQ(of_run.fragmentation.largest_free_bytes, of_file.fragmentation.largest_free_bytes);
  EXPECT_EQ(of_run.leaks.name, of_file.leaks.name);
  EXPECT_EQ(of_run.leaks.leaked_bytes, of_file.leaks.leaked_bytes);
  expect_same(of_run.sawtooth, of_file.sawtooth);
  EXPECT_TRUE(of_file.history_complete);
}

TEST_P(SnapshotOfRun, has_the_figures_of_the_run) {
  for (const Mode mode : {Mode::step, Mode::training_forward}) {
    for (const Compile level : {Compile::off, Compile::full}) {
      SCOPED_TRACE(fmt::format("{} {}", name(mode), name(level)));
      RunConfig config = run_of({.mode = mode, .level = level, .checkpoint = Checkpoint::selective});
      config.device = GetParam();
      config.steps = 3;
      const MemoryRun run = memory_of_run(config);
      const TemporaryFolder folder;
      for (const char* file : {"s.pickle", "s.json"}) {
        write_snapshot(folder / file, run.snapshot);
        const Snapshot snapshot = read_snapshot(folder / file);
        const MemoryAnalysis analysis = analyse_memory(snapshot, 0);
        const MemoryReport& report = analysis.report;
        expect_same(run.memory.report, report);
        for (const TimelineAxis axis : {TimelineAxis::time, TimelineAxis::events})
          expect_same(make_timeline(run.snapshot, run.memory, axis, 100), make_timeline(snapshot, analysis, axis, 100));
        EXPECT_EQ(report.peak.allocated_bytes, run.run.memory_bytes.peak_allocated);
        EXPECT_EQ(report.peak.reserved_bytes, run.run.memory_bytes.peak_reserved);
        EXPECT_EQ(report.end.allocated_bytes, run.run.memory_bytes.allocated_at_end);
        EXPECT_EQ(report.leaks.leaked_bytes, 0U);
        std::vector<std::string> origins;
        for (const MemoryShare& share : report.contents.origins) origins.push_back(share.name);
        EXPECT_THAT(origins, Contains(HasSubstr("parameter token_embeddings.weight")));
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(devices, SnapshotOfRun, ::testing::Values("cpu", "null"));

}  // namespace
}  // namespace ridgepoint
