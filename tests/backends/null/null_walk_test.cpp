// Whole models on the null device: the memory of models that no machine here could hold.
#include <gtest/gtest.h>

#include "backends/null/null_device.h"
#include "backends/reference/reference_device.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/training_graph.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kWalkGiB = std::size_t{1} << 30;

TransformerConfig smallest_config() {
  return {.name = "smallest", .vocab = 50, .context = 16, .d_model = 32, .d_ff = 64, .layers = 2, .heads = 2};
}

TEST(null_walk, predicts_the_memory_of_a_step_to_the_byte) {
  const TransformerConfig config = smallest_config();
  const std::shared_ptr<Device> target = make_reference_device();
  Program real(testing::transformer_graph(config, 2, Mode::step), target);
  initialise(real, Transformer(config, 2), 1);
  Program predicted(testing::transformer_graph(config, 2, Mode::step), make_null_device(target));
  for (int step = 0; step < 2; ++step) {
    real.run();
    predicted.run();
    const MemoryUse found = real.memory_use();
    const MemoryUse expected = predicted.memory_use();
    EXPECT_GT(found.peak_allocated_bytes, 0u);
    EXPECT_EQ(found.allocated_bytes, expected.allocated_bytes);
    EXPECT_EQ(found.peak_allocated_bytes, expected.peak_allocated_bytes);
    EXPECT_EQ(found.peak_reserved_bytes, expected.peak_reserved_bytes);
    EXPECT_EQ(found.peak_requested_bytes, expected.peak_requested_bytes);
    EXPECT_EQ(real.before_backward_bytes(), predicted.before_backward_bytes());
  }
}

TEST(null_walk, walks_a_model_larger_than_the_machine) {
  TransformerConfig config = transformer_preset("2.7b");
  config.context = 1024;
  Program program(testing::transformer_graph(config, 64, Mode::step), make_null_device(make_reference_device()));
  program.run();
  // The fp32 parameters and both moments alone.
  EXPECT_GT(program.memory_use().peak_allocated_bytes, 3 * 4 * static_cast<std::size_t>(parameter_count(config)));
  EXPECT_GT(program.memory_use().peak_allocated_bytes, 1000 * kWalkGiB);
}

TEST(null_walk, runs_out_where_the_limit_is_and_stays_usable) {
  const TransformerConfig config = smallest_config();
  const std::shared_ptr<Device> target = make_reference_device();
  const auto make_program = [&](std::size_t limit_bytes) {
    return Program(testing::transformer_graph(config, 256, Mode::step), make_null_device(target, limit_bytes));
  };
  Program enough = make_program(kWalkGiB);
  enough.run();
  const std::size_t needed_bytes = enough.memory_use().peak_reserved_bytes;
  Program just_enough = make_program(needed_bytes);
  just_enough.run();
  EXPECT_EQ(just_enough.memory_use().peak_reserved_bytes, needed_bytes);

  Program short_of = make_program(needed_bytes / 2);
  const std::size_t persistent_bytes = short_of.memory_use().allocated_bytes;
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THROW(short_of.run(), OutOfMemory);
    EXPECT_EQ(short_of.memory_use().allocated_bytes, persistent_bytes);
    EXPECT_LE(short_of.memory_use().peak_reserved_bytes, needed_bytes / 2);
  }
}

}  // namespace
}  // namespace ridgepoint
