// The arena of a compiled training step of each preset, on the null device.
#include <gtest/gtest.h>

#include "models/transformer/transformer.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

Program step_of(const std::string& preset, const ProgramOptions& options) {
  TransformerConfig config = transformer_preset(preset);
  config.context = 1024;
  Program program(build_transformer(config, 4), open_device("null"), options);
  program.run();
  return program;
}

class ArenaOfPreset : public ::testing::TestWithParam<const char*> {};

TEST_P(ArenaOfPreset, is_within_three_percent_of_the_lower_bound_and_below_eager) {
  const CompileOptions eager{.mode = Mode::step, .precision = Precision::bf16};
  CompileOptions compiled = eager;
  compiled.level = Compile::full;
  const Program arena = step_of(GetParam(), {.compile = compiled});
  const auto bound = static_cast<double>(arena.liveness_lower_bound_bytes());
  const std::size_t arena_bytes = arena.memory_use().peak_reserved_bytes;
  RecordProperty("over_lower_bound", std::to_string(static_cast<double>(arena_bytes) / bound - 1));
  EXPECT_EQ(arena.memory_use().peak_allocated_bytes, arena.liveness_lower_bound_bytes());
  EXPECT_LE(static_cast<double>(arena_bytes), 1.03 * bound);
  EXPECT_LE(arena_bytes, step_of(GetParam(), {.compile = eager}).memory_use().peak_allocated_bytes);
  const Program caching = step_of(GetParam(), {.compile = compiled, .allocator = AllocatorKind::caching});
  EXPECT_LE(arena_bytes, caching.memory_use().peak_reserved_bytes);
  EXPECT_EQ(caching.liveness_lower_bound_bytes(), arena.liveness_lower_bound_bytes());
}

TEST_P(ArenaOfPreset, of_an_eager_step_is_within_three_percent_of_the_lower_bound) {
  const Program arena = step_of(GetParam(), {.compile = {.mode = Mode::step}, .allocator = AllocatorKind::arena});
  EXPECT_LE(static_cast<double>(arena.memory_use().peak_reserved_bytes),
            1.03 * static_cast<double>(arena.liveness_lower_bound_bytes()));
}

INSTANTIATE_TEST_SUITE_P(Presets, ArenaOfPreset, ::testing::Values("tiny", "small", "medium", "large", "xl", "2.7b"),
                         [](const auto& preset) {
                           const std::string name = preset.param;
                           return name == "2.7b" ? "of_2_7b" : name;
                         });

}  // namespace
}  // namespace ridgepoint
