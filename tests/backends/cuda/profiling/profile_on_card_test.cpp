// Profiles on the GPU: nothing is missing, nothing is counted twice, and recording costs little.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "backends/cuda/card.h"
#include "inspect/profile/profile.h"
#include "inspect/profile/views.h"
#include "models/transformer/transformer.h"
#include "run/session/steps/step_benchmark.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

struct OnCardProfile : testing::OnCard {
  static RunConfig config_of(const std::string& model, Mode mode) {
    return {.device = "cuda",
            .workload = std::make_shared<Transformer>(transformer_preset(model), 4),
            .compile = {.mode = mode},
            .warmup = 5,
            .steps = 10};
  }
  static Profile profile_of(RunConfig config, std::int64_t steps = 5) {
    config.profiled_steps = steps;
    static CeilingCache ceilings;
    std::optional<Profile> profile = measure_profile(config, ceilings);
    EXPECT_EQ(profile->run.status, RunStatus::ok) << profile->run.error.message;
    EXPECT_THAT(profile->problem, IsEmpty());
    return std::move(*profile);
  }

  // Step, node and name of each kernel.
  using Kinds = std::multiset<std::tuple<std::uint32_t, std::uint32_t, std::string>>;
  static Kinds kinds(const Profile& profile) {
    Kinds found;
    for (const KernelRecord& kernel : profile.kernels) found.emplace(kernel.step, kernel.node, kernel.name);
    return found;
  }
  static Kinds only_one_has(const Kinds& a, const Kinds& b) {
    Kinds found;
    std::ranges::set_symmetric_difference(a, b, std::inserter(found, found.end()));
    return found;
  }
};

TEST_F(OnCardProfile, every_kernel_finds_its_node_and_every_launch_its_kernel) {
  const Profile profile = profile_of(config_of("tiny", Mode::step));
  EXPECT_THAT(profile.steps, SizeIs(5));
  EXPECT_EQ(profile.dropped_records, 0U);
  EXPECT_EQ(profile.silent_launches, 0U);
  for (const KernelRecord& kernel : profile.kernels) {
    EXPECT_NE(kernel.kernel_class, KernelClass::unknown) << kernel.name;
    EXPECT_FALSE(kernel.name.empty());
    EXPECT_GT(kernel.duration_ns, 0) << kernel.name;
    EXPECT_EQ(kernel.kind == ActivityKind::kernel, kernel.grid[0] * kernel.block[0] > 0) << kernel.name;
  }
  // One node updates all tensors and has their common steps once.
  const auto expected = static_cast<double>(5 * profile.run.training_step->flops_per_step.value());
  EXPECT_NEAR(static_cast<double>(total(profile).flops), expected, 1e-3 * expected);
}

TEST_F(OnCardProfile, a_captured_run_has_the_kernels_of_its_launches_and_their_nodes) {
  RunConfig config = config_of("tiny", Mode::step);
  config.compile.level = Compile::full;
  config.compile.skip = {"spread_updates"};  // which groups the updates of captured runs in another way
  const Profile captured = profile_of(config);
  EXPECT_TRUE(captured.captured) << captured.capture_note;
  EXPECT_EQ(captured.dropped_records, 0U);
  EXPECT_EQ(captured.silent_launches, 0U);
  config.compile.level = Compile::fuse;
  const Profile fused = profile_of(config);
  EXPECT_THAT(only_one_has(kinds(captured), kinds(fused)), IsEmpty());
}

// CUPTI knows kernels by addresses that the driver gives again to others, once their code is unloaded.
TEST_F(OnCardProfile, kernels_have_their_names_in_every_profile_of_a_process) {
  std::map<Compile, Kinds> first;
  for (int round = 0; round < 8; ++round) {
    for (const Compile level : {Compile::off, Compile::full, Compile::fuse}) {
      RunConfig config = config_of("tiny", Mode::step);
      config.compile.level = level;
      const Kinds found = kinds(profile_of(config, 1));
      const auto [entry, is_first] = first.try_emplace(level, found);
      EXPECT_THAT(only_one_has(found, entry->second), IsEmpty()) << name(level) << " in round " << round;
      config.compile.mode = Mode::forward_backward;  // is not recorded
      CeilingCache ceilings;
      EXPECT_EQ(measure_step(config, ceilings).value().status, RunStatus::ok);
    }
  }
}

// The minimum of a few rounds, because other load only adds time; of many layers, because a captured run idles only at
// its begin.
TEST_F(OnCardProfile, a_captured_run_idles_less) {
  const auto least_idle_ns = [](Compile level) {
    RunConfig config = config_of("tiny", Mode::step);
    TransformerConfig deep = transformer_preset("tiny");
    deep.layers = 32;
    config.workload = std::make_shared<Transformer>(deep, 4);
    config.compile.level = level;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int round = 0; round < 5; ++round) least = std::min(least, idle_time(profile_of(config)).idle_ns());
    return least;
  };
  EXPECT_LT(least_idle_ns(Compile::full), least_idle_ns(Compile::fuse));
}

TEST_F(OnCardProfile, kernels_run_after_their_calls_and_within_their_steps) {
  const Profile profile = profile_of(config_of("tiny", Mode::step));
  constexpr std::int64_t kClockNs = 20'000;  // the largest difference between the clocks of GPU and host
  for (const KernelRecord& kernel : profile.kernels) {
    EXPECT_GE(kernel.start_ns + kClockNs, kernel.call_start_ns) << kernel.name;
    EXPECT_GE(kernel.start_ns + kClockNs, profile.steps[kernel.step].begin_ns) << kernel.name;
    EXPECT_LE(kernel.end_ns(), profile.steps[kernel.step].end_ns + kClockNs) << kernel.name;
  }
}

TEST_F(OnCardProfile, kernels_and_idle_time_are_the_wall_time_within_one_per_cent) {
  for (const Mode mode : {Mode::forward, Mode::step}) {
    const Reconciliation clock = reconcile(profile_of(config_of("small", mode)));
    EXPECT_NEAR(clock.kernels_ms + clock.idle_ms, clock.profiled_ms, 0.01 * clock.profiled_ms) << name(mode);
    EXPECT_GT(clock.kernels_ms, 0.5 * clock.profiled_ms) << name(mode);
  }
}

// The minimum of a few rounds, because other load only adds time.
TEST_F(OnCardProfile, watching_slows_an_eager_step_by_less_than_five_per_cent) {
  double least = INFINITY;
  for (int round = 0; round < 3; ++round) {
    const Profile profile = profile_of(config_of("small", Mode::step), 10);
    const double profiled_ms = reconcile(profile).profiled_ms;
    least = std::min(least, profiled_ms / profile.run.training_step->time_ms.median - 1);
  }
  EXPECT_LT(least, 0.05);
}

TEST_F(OnCardProfile, can_be_made_again_in_the_same_process) {
  const Profile first = profile_of(config_of("tiny", Mode::forward), 1);
  const Profile second = profile_of(config_of("tiny", Mode::forward), 1);
  EXPECT_EQ(first.kernels.size(), second.kernels.size());
}

}  // namespace
}  // namespace ridgepoint
