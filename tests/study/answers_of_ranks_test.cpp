// The answers about several ranks: the speed they keep, what sharding saves, and what collectives reach.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "study/answer_rows.h"

namespace ridgepoint {
namespace {

using testing::answer;
using testing::bench_row;
using ::testing::HasSubstr;
using testing::sentence;

// A row of two ranks whose collectives run a tenth of the step.
Json ranks_row(std::string_view shard, double slowest_ms, double alone_ms, double hidden, double peak) {
  Json row = bench_row("small", 1e6, "step", "bf16", slowest_ms);
  const double communication = 0.1 * slowest_ms;
  row["parallel"] = {{"data", 2},
                     {"shard", shard},
                     {"slowest_ms", slowest_ms},
                     {"alone_ms", alone_ms},
                     {"communication_ms", communication},
                     {"exposed_ms", (1 - hidden) * communication},
                     {"hidden", hidden}};
  row["memory_bytes"]["peak_allocated"] = peak;
  return row;
}

TEST(Answers, say_how_much_speed_ranks_keep_and_why) {
  const auto of = [](const Json& row) { return sentence({{StudyPart::ranks, {row}}}, "How much of its speed"); };
  EXPECT_EQ(
      of(ranks_row("none", 100, 92, 0.1, 1000)),
      "On 2 ranks, each with the batch of one, a step of small keeps 92 % of the speed of one rank alone (most of the "
      "loss is communication that nothing hides).");
  EXPECT_EQ(
      of(ranks_row("none", 100, 80, 0.95, 1000)),
      "On 2 ranks, each with the batch of one, a step of small keeps 80 % of the speed of one rank alone (most of the "
      "loss is not exposed communication: the ranks share other resources).");
  EXPECT_EQ(of(ranks_row("none", 100, 101, 1, 1000)),
            "On 2 ranks, each with the batch of one, a step of small keeps 101 % of the speed of one rank alone.");
  EXPECT_EQ(answer({{StudyPart::ranks, {ranks_row("optimizer", 1, 1, 1, 1)}}}, "How much of its speed").missing,
            StudyPart::ranks);
}

TEST(Answers, weigh_sharding) {
  const auto of = [](const Json& sharded) {
    return sentence({{StudyPart::ranks, {ranks_row("none", 100, 95, 0.9, 4096), sharded}}}, "What does dividing");
  };
  EXPECT_EQ(of(ranks_row("parameters", 120, 95, 0.9, 1024)),
            "Of small, 'parameters' has the lowest peak: 1.0 KiB instead of 4.0 KiB (75 % less), for a step that takes "
            "1.20x as long (gradients not measured).");
  EXPECT_THAT(of(ranks_row("optimizer", 100, 95, 0.9, 2048)),
              HasSubstr("1.00x as long, which is within the noise (gradients and parameters not measured)."));
  EXPECT_EQ(of(ranks_row("optimizer", 90, 95, 0.9, 5000)), "No sharding lowers the peak of small.");
}

TEST(Answers, say_what_collectives_reach) {
  const auto row = [](double bytes, double us, double bus, double share, double wrong) {
    return Json{{"op", "all_reduce"},       {"dtype", "fp32"},     {"bytes", bytes}, {"time_us", us},
                {"bus_gb_per_second", bus}, {"link_share", share}, {"wrong", wrong}};
  };
  const auto of = [&](const Json& most) {
    return sentence({{StudyPart::collectives, {row(1024, 12, 0.1, 0.001, 0), most}}}, "What bandwidth");
  };
  EXPECT_EQ(
      of(row(1 << 30, 3300, 330, 0.73, 0)),
      "By the bandwidth of a link of a ring: all_reduce 330.00 GB/s (73 % of the link) at 1.0 GiB, and 12.0 us at "
      "1.0 KiB.");
  Json without_link = row(1 << 20, 300, 3, 0, 2);
  without_link.erase("link_share");
  EXPECT_EQ(
      of(without_link),
      "By the bandwidth of a link of a ring: all_reduce 3.00 GB/s at 1.0 MiB, and 12.0 us at 1.0 KiB. 2 elements of "
      "the results are wrong.");
}

}  // namespace
}  // namespace ridgepoint
