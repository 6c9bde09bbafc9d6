// Sums over a profile whose every figure is known.
#include "inspect/profile/views.h"

#include <algorithm>
#include <cmath>

#include "support/matchers.h"
#include "support/records/sample_profile.h"

namespace ridgepoint {
namespace {

using ::testing::DoubleEq;

std::vector<std::string> names(const std::vector<ScopeRow>& rows) {
  std::vector<std::string> result;
  for (const ScopeRow& row : rows)
    result.push_back(std::string(2 * static_cast<std::size_t>(row.level - 1), ' ') + row.name);
  return result;
}

TEST(ByKernel, adds_up_calls_of_one_name_longest_first) {
  const std::vector<KernelRow> rows = by_kernel(sample_profile());
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0].name, "gemm");
  EXPECT_EQ(rows[0].sum.calls, 3);
  EXPECT_EQ(rows[0].sum.time_ns, 500);
  EXPECT_EQ(rows[0].sum.flops, 360'000);
  EXPECT_THAT(rows[0].us.min, DoubleEq(0.1));
  EXPECT_THAT(rows[0].us.max, DoubleEq(0.2));
  EXPECT_THAT(rows[0].us.median, DoubleEq(0.2));
  EXPECT_EQ(rows[1].name, "update");
}

TEST(ByClass, keeps_phases_apart_and_loses_nothing) {
  const Profile profile = sample_profile();
  const std::vector<ClassRow> rows = by_class(profile);
  ASSERT_THAT(rows, SizeIs(5));
  EXPECT_EQ(rows[0].phase, ProfilePhase::forward);
  EXPECT_EQ(rows[0].kernel_class, KernelClass::matmul);
  EXPECT_EQ(rows[0].sum.time_ns, 300);
  EXPECT_EQ(rows[1].kernel_class, KernelClass::softmax);
  EXPECT_EQ(rows[3].phase, ProfilePhase::backward);
  KernelSum all;
  for (const ClassRow& row : rows) all.add(row.sum);
  EXPECT_EQ(all.time_ns, total(profile).time_ns);
  EXPECT_EQ(all.flops, total(profile).flops);
  EXPECT_EQ(all.bytes, total(profile).bytes);
}

TEST(ByScope, folds_layers_and_puts_ops_innermost) {
  EXPECT_THAT(names(by_scope(sample_profile(), 4)),
              ElementsAre("layers.*", "  attn", "    scores", "      matmul", "    values", "      matmul",
                          "    softmax", "      exp", "loss", "  cross_entropy", "optimizer", "  adamw"));
}

TEST(ByScope, stops_at_the_depth_asked_for_and_keeps_the_sums) {
  const Profile profile = sample_profile();
  const std::vector<ScopeRow> rows = by_scope(profile, 1);
  EXPECT_THAT(names(rows), ElementsAre("layers.*", "loss", "optimizer"));
  std::int64_t time_ns = 0;
  for (const ScopeRow& row : rows) time_ns += row.sum.time_ns;
  EXPECT_EQ(time_ns, total(profile).time_ns);
}

TEST(ByScope, shows_each_layer_when_asked) {
  EXPECT_THAT(names(by_scope(sample_profile(), 1, Layers::apart)),
              ElementsAre("layers.0", "layers.1", "loss", "optimizer"));
}

TEST(ByScope, rows_of_a_level_add_up_to_the_row_above) {
  const std::vector<ScopeRow> rows = by_scope(sample_profile(), 9);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].is_op) continue;
    std::int64_t below = 0;
    for (std::size_t k = i + 1; k < rows.size() && rows[k].level > rows[i].level; ++k) {
      if (rows[k].level == rows[i].level + 1) below += rows[k].sum.time_ns;
    }
    EXPECT_EQ(below, rows[i].sum.time_ns) << rows[i].path;
  }
}

TEST(ByScope, tells_phases_apart) {
  const std::vector<ScopeRow> rows = by_scope(sample_profile(), 3);
  const auto scores = std::ranges::find(rows, "scores", &ScopeRow::name);
  ASSERT_NE(scores, rows.end());
  EXPECT_EQ(scores->by_phase[static_cast<std::size_t>(ProfilePhase::forward)].time_ns, 200);
  EXPECT_EQ(scores->by_phase[static_cast<std::size_t>(ProfilePhase::backward)].time_ns, 200);
}

TEST(ByScope, a_module_and_an_op_of_one_name_stay_two_rows) {
  Profile profile;
  profile.steps = {{0, 10}};
  add_kernel(profile, {"a", "softmax", "", KernelClass::softmax, ProfilePhase::forward, 0, 1});
  add_kernel(profile, {"b", "exp", "softmax", KernelClass::softmax, ProfilePhase::forward, 1, 1});
  EXPECT_THAT(names(by_scope(profile, 2)), ElementsAre("softmax", "softmax", "  exp"));
}

TEST(AttentionParts, stand_side_by_side) {
  const std::vector<AttentionRow> rows = attention_parts(sample_profile());
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0].part, "scores matmul");
  EXPECT_EQ(rows[1].part, "values matmul");
  EXPECT_EQ(rows[2].part, "softmax");
  EXPECT_EQ(rows[2].sum.time_ns, 80);
  EXPECT_EQ(rows[3].phase, ProfilePhase::backward);
}

TEST(AttentionParts, are_none_where_attention_is_one_kernel) {
  Profile profile;
  profile.steps = {{0, 10}};
  add_kernel(profile, {"flash", "attention", "layers.0.attn", KernelClass::elementwise, ProfilePhase::forward, 0, 5});
  EXPECT_THAT(attention_parts(profile), IsEmpty());
}

TEST(IdleTime, and_kernels_are_the_wall_time) {
  const IdleTime idle = idle_time(sample_profile());
  EXPECT_EQ(idle.wall_ns, 1000);
  EXPECT_EQ(idle.busy_ns, 800);
  EXPECT_EQ(idle.overlap_ns, 0);
  EXPECT_THAT(idle.by_cause_ns, ElementsAre(100, 20, 80, 0, 0, 0, 0, 0));
  EXPECT_THAT(idle.gaps, ElementsAre(1, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_EQ(idle.idle_ns(), 200);
  EXPECT_EQ(idle.longest[1]->before, 2U);
  EXPECT_EQ(idle.longest[2]->before, std::nullopt);
}

TEST(IdleTime, is_the_hosts_where_the_call_came_after_the_kernel_before_had_ended) {
  Profile profile;
  profile.steps = {{0, 100}};
  add_kernel(profile, {"a", "a", "", KernelClass::elementwise, ProfilePhase::forward, 0, 30, 0});
  add_kernel(profile, {"b", "b", "", KernelClass::elementwise, ProfilePhase::forward, 50, 50, 40});
  const IdleTime idle = idle_time(profile);
  EXPECT_THAT(idle.by_cause_ns, ElementsAre(20, 0, 0, 0, 0, 0, 0, 0));
}

TEST(IdleTime, counts_kernels_side_by_side_once) {
  Profile profile;
  profile.steps = {{0, 100}};
  add_kernel(profile, {"a", "a", "", KernelClass::elementwise, ProfilePhase::forward, 0, 80, 0});
  add_kernel(profile, {"b", "b", "", KernelClass::elementwise, ProfilePhase::forward, 20, 30, 0});
  const IdleTime idle = idle_time(profile);
  EXPECT_EQ(idle.busy_ns, 80);
  EXPECT_EQ(idle.overlap_ns, 30);
  EXPECT_EQ(idle.idle_ns(), 20);
  const Reconciliation clock = reconcile(profile);
  EXPECT_DOUBLE_EQ(clock.kernels_ms + clock.idle_ms - clock.overlap_ms, clock.profiled_ms);
}

TEST(IdleTime, leaves_out_what_lies_between_steps) {
  Profile profile;
  profile.steps = {{0, 10}, {1000, 1010}};
  add_kernel(profile, {"a", "a", "", KernelClass::elementwise, ProfilePhase::forward, 0, 10, 0}, 0);
  add_kernel(profile, {"a", "a", "", KernelClass::elementwise, ProfilePhase::forward, 1000, 10, 0}, 1);
  EXPECT_EQ(idle_time(profile).wall_ns, 20);
  EXPECT_EQ(idle_time(profile).idle_ns(), 0);
}

TEST(Roofline, holds_each_kernel_against_the_roof_that_binds_it) {
  const Profile profile = sample_profile();
  const std::vector<RooflineRow> rows = roofline_by_class(profile);
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0].what, "matmul");
  EXPECT_DOUBLE_EQ(rows[0].floor_ns, 360);
  EXPECT_DOUBLE_EQ(rows[0].recoverable_ns, 140);
  EXPECT_FALSE(rows[0].bound_by_memory);
  EXPECT_EQ(rows[1].what, "optimizer");
  EXPECT_TRUE(rows[1].bound_by_memory);
}

TEST(Roofline, a_kernel_faster_than_its_floor_owes_nothing) {
  Profile profile = sample_profile();
  // 28,000 bytes are 280 ns from memory; the update took 120.
  const std::vector<RooflineRow> rows = roofline_by_class(profile);
  EXPECT_DOUBLE_EQ(rows[1].recoverable_ns, 0);
}

TEST(Roofline, says_where_the_bytes_cannot_have_come_from_memory) {
  const Profile profile = sample_profile();
  for (const RooflineRow& row : roofline_by_class(profile)) {
    const bool is_update = row.what == "optimizer";  // 280 ns of bytes in 120
    EXPECT_EQ(row.is_past_floor(), is_update) << row.what;
    EXPECT_EQ(bound_of(row), is_update ? "cache" : row.what == "matmul" ? "matmul rate" : "copy bandwidth") << row.what;
  }
  RooflineRow fast;
  fast.sum.time_ns = 10;
  fast.floor_ns = 20;
  EXPECT_EQ(bound_of(fast), "matmul rate") << "a product that beats the measured rate";
}

TEST(Roofline, orders_places_by_the_time_that_could_be_won) {
  const std::vector<RooflineRow> rows = recoverable_time(sample_profile());
  ASSERT_THAT(rows, SizeIs(6));
  EXPECT_EQ(rows[0].what, "layers.*.attn.scores matmul");
  EXPECT_EQ(rows[0].phase, ProfilePhase::forward);
  EXPECT_DOUBLE_EQ(rows[0].recoverable_ns, 100);
  EXPECT_EQ(rows[0].kernel, "gemm");
  EXPECT_TRUE(std::ranges::is_sorted(rows, std::ranges::greater(), &RooflineRow::recoverable_ns));
}

TEST(Roofline, says_nothing_without_ceilings) {
  Profile profile = sample_profile();
  profile.copy_bytes_per_second.reset();
  EXPECT_THAT(roofline_by_class(profile), IsEmpty());
  EXPECT_THAT(recoverable_time(profile), IsEmpty());
}

TEST(Reconcile, compares_the_trace_with_the_timed_steps) {
  Profile profile = sample_profile();
  profile.run.training_step->time_ms = describe({0.0008, 0.0010});
  const Reconciliation clock = reconcile(profile);
  EXPECT_DOUBLE_EQ(clock.kernels_ms, 0.0008);
  EXPECT_DOUBLE_EQ(clock.idle_ms, 0.0002);
  EXPECT_DOUBLE_EQ(clock.profiled_ms, 0.001);
  EXPECT_DOUBLE_EQ(clock.timed_ms, 0.0009);
  EXPECT_NEAR(clock.difference_ms(), 0.0001, 1e-12);
  EXPECT_DOUBLE_EQ(clock.recording_ms, 6 * 50 / 1e6);
  EXPECT_NEAR(clock.timed_std_ms, 0.0001 * std::sqrt(2.0), 1e-12);
  EXPECT_EQ(clock.profiled_std_ms, 0) << "of one step";
  profile.steps.push_back({2000, 4000});
  EXPECT_NEAR(reconcile(profile).profiled_std_ms, 0.0005 * std::sqrt(2.0), 1e-12);
}

TEST(KernelFilter, takes_a_module_with_all_it_holds) {
  EXPECT_TRUE(matches_scope("layers.*.attn", "layers.3.attn"));
  EXPECT_TRUE(matches_scope("layers.*.attn", "layers.3.attn.softmax"));
  EXPECT_TRUE(matches_scope("layers.?.attn.s*", "layers.3.attn.scores"));
  EXPECT_TRUE(matches_scope("*", "loss"));
  EXPECT_FALSE(matches_scope("layers.*.attn", "layers.3.attn_norm"));
  EXPECT_FALSE(matches_scope("layers.*.softmax", "layers.3.attn.softmax")) << "a star does not cross a dot";
  EXPECT_FALSE(matches_scope("attn", "layers.3.attn"));
  EXPECT_FALSE(matches_scope("*", ""));
}

TEST(KernelFilter, keeps_what_all_the_kernels_were) {
  Profile profile = sample_profile();
  select_kernels(profile, {{ProfilePhase::forward}, {"layers.*.attn.scores", "layers.*.attn.softmax"}});
  ASSERT_THAT(profile.kernels, SizeIs(2));
  EXPECT_EQ(profile.kernels[0].scope, "layers.0.attn.scores");
  EXPECT_EQ(profile.kernels[1].scope, "layers.0.attn.softmax");
  ASSERT_TRUE(profile.selection.has_value());
  EXPECT_EQ(profile.selection->all_calls, 6);
  EXPECT_EQ(profile.selection->all_time_ns, 800);
  EXPECT_EQ(profile.selection->by, "phase forward, module layers.*.attn.scores or layers.*.attn.softmax");
}

TEST(KernelFilter, leaves_a_profile_alone_that_it_says_nothing_of) {
  Profile profile = sample_profile();
  select_kernels(profile, {});
  EXPECT_THAT(profile.kernels, SizeIs(6));
  EXPECT_FALSE(profile.selection.has_value());
}

}  // namespace
}  // namespace ridgepoint
