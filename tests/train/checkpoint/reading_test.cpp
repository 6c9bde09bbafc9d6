// What comes back from a checkpoint: the same steps, bit by bit; and which checkpoints do not.

#include <map>

#include "core/build_info.h"
#include "core/files/file.h"
#include "ridgepoint/core/error.h"
#include "support/graphs/rank_threads.h"
#include "support/matchers.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/trained_program.h"

namespace ridgepoint::train {
namespace {

using ridgepoint::testing::RankThreads;

class EachTraining : public ::testing::TestWithParam<Training> {};

TEST_P(EachTraining, goes_on_from_a_checkpoint_bit_by_bit) {
  const RunFolder folder;
  TrainedProgram run(GetParam(), 3);
  for (std::int64_t i = 1; i <= 3; ++i) run.step(i);
  CheckpointWriter writer(run.program(), {.folder = folder.path(), .model = run.model()});
  writer.save(at(3));
  std::vector<float> losses;
  for (std::int64_t i = 4; i <= 6; ++i) losses.push_back(run.step(i));  // beside the write
  writer.finish();
  ASSERT_EQ(writer.take_problem(), std::nullopt);

  TrainedProgram resumed(GetParam(), 8);
  const std::optional<FoundCheckpoint> found = find_newest(folder.path());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->manifest.step, 3);
  EXPECT_EQ(found->manifest.sequences, 12);
  EXPECT_EQ(found->manifest.noise, at(3).noise);
  EXPECT_EQ(found->manifest.run, at(3).run);
  EXPECT_THAT(found->notes, IsEmpty());
  load(resumed.program(), *found, resumed.model());
  for (std::int64_t i = 4; i <= 6; ++i) EXPECT_EQ(resumed.step(i), losses[static_cast<std::size_t>(i - 4)]);
  expect_same(resumed.state(), run.state());
}

// Every rank's state after steps, some of them behind a checkpoint of other ranks.
using States = std::vector<std::map<std::string, std::vector<std::byte>>>;

TEST_P(EachTraining, goes_on_with_two_ranks_bit_by_bit_however_they_divide_it) {
  for (const Sharding shard : kAllShardings) {
    if (shard == Sharding::parameters && GetParam().options.base_weights != BaseWeights::as_is) continue;  // is refused
    SCOPED_TRACE(name(shard));
    const RunFolder folder;
    States expected(2), found(2);
    std::vector<std::vector<float>> losses(2), again(2);
    RankThreads threads(2);
    threads.run([&](std::size_t rank, const auto& others) {
      const auto group = threads.process_group(rank);
      const auto number = static_cast<std::int64_t>(rank);
      {
        TrainedProgram run(GetParam(), 3, number, 2, shard, others);
        for (std::int64_t i = 1; i <= 2; ++i) run.step(i);
        CheckpointWriter writer(run.program(), {.folder = folder.path(), .group = group.get(), .model = run.model()});
        writer.save(at(2));
        for (std::int64_t i = 3; i <= 4; ++i) losses[rank].push_back(run.step(i));
        writer.finish();
        EXPECT_EQ(writer.take_problem(), std::nullopt);
        expected[rank] = run.state();
        group->barrier();
      }
      TrainedProgram resumed(GetParam(), 8, number, 2, shard, others);
      const std::optional<FoundCheckpoint> checkpoint = find_newest(folder.path(), group.get());
      load(resumed.program(), checkpoint.value(), resumed.model());
      for (std::int64_t i = 3; i <= 4; ++i) again[rank].push_back(resumed.step(i));
      found[rank] = resumed.state();
    });
    EXPECT_EQ(again, losses);
    for (std::size_t rank = 0; rank < 2; ++rank) expect_same(found[rank], expected[rank]);
    EXPECT_THAT(names_in(folder.path()), ElementsAre("step-000000002"));
  }
}

// What all ranks store, put together in their order.
std::map<std::string, std::vector<std::byte>> joined(const States& states, const std::vector<StatePart>& parts) {
  std::map<std::string, std::vector<std::byte>> all = states[0];
  for (const StatePart& part : parts) {
    for (std::size_t rank = 1; part.is_divided && rank < states.size(); ++rank) {
      const std::vector<std::byte>& theirs = states[rank].at(part.name);
      all[part.name].insert(all[part.name].end(), theirs.begin(), theirs.end());
    }
  }
  return all;
}

TEST_P(EachTraining, goes_to_another_number_of_ranks_and_back) {
  for (const Sharding shard : kAllShardings) {
    if (shard == Sharding::parameters && GetParam().options.base_weights != BaseWeights::as_is) continue;  // is refused
    SCOPED_TRACE(name(shard));
    const RunFolder folder;
    States divided(2);
    std::vector<StatePart> parts;
    TrainedProgram one(GetParam(), 3);
    for (std::int64_t i = 1; i <= 2; ++i) one.step(i);
    save(one, folder.path(), 2);
    RankThreads threads(2);
    threads.run([&](std::size_t rank, const auto& others) {
      const auto group = threads.process_group(rank);
      TrainedProgram run(GetParam(), 8, static_cast<std::int64_t>(rank), 2, shard, others);
      load(run.program(), find_newest(folder.path(), group.get()).value(), run.model());
      divided[rank] = run.state();
      if (rank == 0) parts = run.program().state_parts();
      CheckpointWriter writer(run.program(), {.folder = folder.path(), .group = group.get(), .model = run.model()});
      writer.save(at(3));
      writer.finish();
      EXPECT_EQ(writer.take_problem(), std::nullopt);
    });
    expect_same(joined(divided, parts), one.state());
    TrainedProgram back(GetParam(), 9);
    const FoundCheckpoint found = find_newest(folder.path()).value();
    EXPECT_EQ(found.manifest.ranks, 2);
    load(back.program(), found, back.model());
    expect_same(back.state(), one.state());
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, EachTraining, ::testing::ValuesIn(trainings()),
                         [](const auto& info) { return info.param.name; });

TEST(Checkpoint, none_is_found_where_there_is_none) {
  const RunFolder folder;
  EXPECT_FALSE(find_newest(folder.path()));
  EXPECT_FALSE(find_newest(folder / "missing"));
}

TEST(Checkpoint, of_another_revision_is_used_and_said) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  save(run, folder.path(), 1);
  ManifestContents contents = read_manifest(folder / "step-000000001");
  EXPECT_EQ(contents.manifest.revision, revision());
  contents.manifest.revision = "0123abc";
  write_file(folder / "step-000000001/manifest.json", manifest_text(contents));
  EXPECT_THAT(find_newest(folder.path()).value().notes, ElementsAre(HasSubstr("was written by revision 0123abc")));
}

// A run whose checkpoint another one cannot go on from, and why.
void expect_refused(const Training& written, const Training& other, const std::string& said) {
  const RunFolder folder;
  TrainedProgram run(written, 3);
  save(run, folder.path(), 1);
  TrainedProgram resumed(other, 4);
  const auto before = resumed.state();
  EXPECT_THAT(error_of([&] { load(resumed.program(), find_newest(folder.path()).value(), resumed.model()); }),
              HasSubstr(said));
  expect_same(resumed.state(), before);
}

TEST(Checkpoint, of_a_model_of_another_size_is_refused) {
  Training wider = plain();
  wider.config.d_ff = 128;
  expect_refused(wider, plain(), "give the same model");
}

TEST(Checkpoint, of_a_model_with_other_layers_is_refused) {
  Training deeper = plain();
  deeper.config.layers = 3;
  expect_refused(deeper, plain(), "'layers.2.");
  expect_refused(plain(), deeper, "lacks 'layers.2.");
}

TEST(Checkpoint, of_another_optimizer_is_refused) {
  expect_refused(trainings()[7], plain(), "'optimizer.");
  expect_refused(plain(), trainings()[7], "which this run lacks");
  expect_refused(trainings()[4], trainings()[2], "'optimizer.first_moment");
}

TEST(Checkpoint, of_another_precision_is_refused) {
  expect_refused(plain(), trainings()[3], "lacks 'optimizer.");
  Training adapted = trainings()[5];
  expect_refused(plain(), adapted, "lora");
}

}  // namespace
}  // namespace ridgepoint::train
