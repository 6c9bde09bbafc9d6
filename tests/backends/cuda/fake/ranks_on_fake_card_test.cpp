// Several ranks on GPUs, without a GPU: each process has a fake card of its own, and a fake NCCL connects them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "backends/cuda/fake/on_fake_card.h"
#include "ridgepoint/record.h"
#include "support/mpirun.h"
#include "support/run_program.h"

namespace ridgepoint {
namespace {

using ::testing::HasSubstr;

class RanksOnFakeCard : public testing::OnFakeCard {
 protected:
  void SetUp() override {
    if (!testing::prepare_mpirun()) GTEST_SKIP() << "mpirun is not installed";
    testing::OnFakeCard::SetUp();
    use_fake_compiler();
  }

  static ProgramResult bench(const std::string& device, const std::vector<std::string>& more) {
    return run_program(with_options({"bench",   "--device", device,     "--model",    "tiny",    "--context", "16",
                                     "--batch", "2",        "--warmup", "2",          "--steps", "2",         "--dtype",
                                     "bf16",    "--format", "jsonl",    "--parallel", "data=2",  "--ranks",   "2"},
                                    more));
  }
};

TEST_F(RanksOnFakeCard, take_what_is_planned_captured_or_not) {
  for (const std::string shard : {"none", "optimizer", "gradients", "parameters"}) {
    for (const std::string level : {"off", "fuse", "full"}) {
      const ProgramResult result = bench("cuda:0", {"--compile", level, "--shard", shard});
      ASSERT_EQ(result.exit_code, 0) << result.error;
      const Record record = record_from_json(result.output);
      EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
      EXPECT_EQ(record.captured, level == "full") << record.capture_problem.value_or("");
      EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak) << shard << ' ' << level;
      EXPECT_GE(record.training_step->parallel.collectives, 1);
    }
  }
}

TEST_F(RanksOnFakeCard, need_a_card_each) {
  const ProgramResult result = bench("cuda", {});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.error + result.output, HasSubstr("this machine has 1"));
}

TEST_F(RanksOnFakeCard, quote_nccl_where_it_fails) {
  set("FAKE_NCCL_FAILS", "ncclAllReduce");
  const ProgramResult result = bench("cuda:0", {});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("NCCL could not all-reduce: invalid argument (of a test)"));
}

}  // namespace
}  // namespace ridgepoint
