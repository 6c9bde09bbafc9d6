#include "inspect/profile/communication.h"

#include <gtest/gtest.h>

#include "support/records/sample_profile.h"

namespace ridgepoint {
namespace {

constexpr auto kCollective = KernelClass::communication;
constexpr auto kOther = KernelClass::matmul;
using P = ProfilePhase;

// A step of 1000 ns: matmuls from 0 to 300, from 300 to 500 and from 640 to 900, which is an update.
Profile step_of(const std::vector<SampleKernel>& collectives) {
  Profile profile;
  profile.steps = {{0, 1000}};
  add_kernel(profile, {"gemm", "matmul", "layers.0", kOther, P::backward, 0, 300, 0});
  add_kernel(profile, {"gemm", "matmul", "layers.1", kOther, P::backward, 300, 200, 0});
  add_kernel(profile, {"update", "adamw", "optimizer", kOther, P::optimizer, 640, 260, 0});
  for (const SampleKernel& collective : collectives) add_kernel(profile, collective);
  return profile;
}

SampleKernel collective(std::int64_t start_ns, std::int64_t end_ns) {
  return {"sum", "all_reduce", "", kCollective, P::backward, start_ns, end_ns - start_ns, 0};
}

TEST(Communication, is_hidden_where_another_kernel_runs) {
  const Communication found = communication(step_of({collective(100, 450)}));
  EXPECT_EQ(found.time_ns, 350);
  EXPECT_EQ(found.exposed_ns, 0);
  EXPECT_DOUBLE_EQ(found.hidden(), 1);
}

TEST(Communication, is_exposed_where_the_next_kernel_waits_for_it) {
  const Profile profile = step_of({collective(400, 600)});
  const Communication found = communication(profile);
  EXPECT_EQ(found.exposed_ns, 100);
  EXPECT_DOUBLE_EQ(found.hidden(), 0.5);
  ASSERT_TRUE(found.collectives[0].waiting);
  EXPECT_EQ(profile.kernels[*found.collectives[0].waiting].op, "adamw");
}

// On a GPU a collective stands between two fills of its own.
TEST(Communication, is_not_what_marks_that_it_runs) {
  Profile profile = step_of({collective(398, 399), collective(400, 600), collective(601, 602)});
  for (const std::size_t fill : {3, 5}) profile.kernels[fill].kind = ActivityKind::fill;
  const Communication found = communication(profile);
  ASSERT_EQ(found.collectives.size(), 1);
  EXPECT_EQ(found.time_ns, 200);
  EXPECT_EQ(found.exposed_ns, 100);
  EXPECT_EQ(profile.kernels[found.collectives[0].waiting.value()].op, "adamw");
}

// Copy engines send the bytes of one collective in several copies, and a kernel adds them.
TEST(Communication, is_one_collective_from_its_first_copy_to_its_last) {
  Profile profile = step_of({collective(390, 450), collective(455, 470), collective(480, 600), collective(880, 900)});
  for (const std::size_t part : {3, 4, 5}) profile.kernels[part].node = profile.kernels[3].node;
  for (const std::size_t copy : {3, 5}) profile.kernels[copy].kind = ActivityKind::copy;
  const Communication found = communication(profile);
  ASSERT_EQ(found.collectives.size(), 2);
  EXPECT_EQ(found.time_ns, 210 + 20);
  EXPECT_EQ(found.exposed_ns, 100);
  EXPECT_EQ(profile.kernels[found.collectives[0].waiting.value()].op, "adamw");
}

// Their rows say what waits for them, but they are not what ranks send each other.
TEST(Communication, of_ranks_is_without_transfers_to_the_host) {
  const SampleKernel transfer{"copy", "copy_from_host", "", kCollective, P::optimizer, 500, 140, 0};
  const Profile profile = step_of({collective(400, 600), transfer});
  ParallelSection section;
  describe_communication(profile, section);
  EXPECT_DOUBLE_EQ(section.communication_ms.value(), 200e-6);
  EXPECT_DOUBLE_EQ(section.exposed_ms.value(), 100e-6);
  EXPECT_DOUBLE_EQ(section.hidden.value(), 0.5);
  EXPECT_EQ(exposed_collectives(profile).front().what, "copy_from_host 1");
  ParallelSection without;
  describe_communication(step_of({transfer}), without);
  EXPECT_FALSE(without.communication_ms.has_value());
}

TEST(Communication, that_goes_on_after_a_gap_did_not_cause_it) {
  EXPECT_EQ(communication(step_of({collective(400, 700)})).exposed_ns, 0) << "the host was late";
}

TEST(Communication, that_ends_last_is_what_the_end_of_the_step_waits_for) {
  const Communication found = communication(step_of({collective(880, 960)}));
  EXPECT_EQ(found.exposed_ns, 60);
  EXPECT_FALSE(found.collectives[0].waiting);
}

TEST(Communication, has_a_row_for_each_collective_of_the_graph_the_most_exposed_first) {
  const std::vector<ExposedRow> rows = exposed_collectives(step_of({collective(100, 200), collective(400, 600)}));
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].what, "all_reduce 2");
  EXPECT_EQ(rows[0].waiting, "optimizer adamw");
  EXPECT_EQ(rows[0].exposed_ns, 100);
  EXPECT_EQ(rows[1].what, "all_reduce 1");
  EXPECT_EQ(rows[1].waiting, "");
}

TEST(Communication, that_overlaps_is_alone_only_once) {
  EXPECT_EQ(communication(step_of({collective(450, 600), collective(550, 620)})).alone_ns, 120) << "from 500 to 620";
}

}  // namespace
}  // namespace ridgepoint
