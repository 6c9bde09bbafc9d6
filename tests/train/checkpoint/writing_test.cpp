// What a checkpoint has, which ones stay, and what the run waits for.

#include <functional>
#include <memory>

#include "backends/cuda/device.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "models/toy_model.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "train/checkpoint/late_device.h"
#include "train/checkpoint/state_copy.h"
#include "train/checkpoint/trained_program.h"

namespace ridgepoint::train {
namespace {

TEST(Checkpoint, has_the_weights_as_transformers_loads_them) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  save(run, folder.path(), 7);
  EXPECT_THAT(names_in(folder / "step-000000007"),
              ElementsAre("config.json", "manifest.json", "model.safetensors", "optimizer.safetensors"));
  const ModelWeights weights(folder / "step-000000007", *run.model());
  EXPECT_THAT(weights.problems(), IsEmpty());
  EXPECT_TRUE(weights.parameters().size() > 10);
  for (const ParameterDeclaration& one : weights.parameters())
    EXPECT_TRUE(weights.read(one.name).data == run.program().read_input(one.name).data) << one.name;
}

TEST(Checkpoint, of_another_workload_has_names_of_this_program) {
  const RunFolder folder;
  const auto make = [] {
    return Program(build_toy_model({}), open_device("cpu"), {.compile = compiled_as(Precision::fp32)});
  };
  Program program = make();
  const ParameterDeclaration first = parameters_of(program.graph())[0];
  program.write_random(first.name, TruncatedNormal{1, 3}, 5);
  CheckpointWriter writer(program, {.folder = folder.path()});
  writer.save(at(1));
  writer.finish();
  EXPECT_THAT(names_in(folder / "step-000000001"),
              ElementsAre("manifest.json", "model.safetensors", "optimizer.safetensors"));
  Program other = make();
  load(other, find_newest(folder.path()).value(), nullptr);
  EXPECT_EQ(other.read_input(first.name).data, program.read_input(first.name).data);
}

TEST(Checkpoint, the_last_ones_and_every_kth_stay) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  CheckpointWriter writer(run.program(),
                          {.folder = folder.path(), .keep = {.last = 2, .every = 3}, .model = run.model()});
  for (std::int64_t step = 1; step <= 8; ++step) writer.save(at(step));
  writer.finish();
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("step-000000003", "step-000000006", "step-000000007", "step-000000008"));
}

TEST(Checkpoint, of_a_step_that_is_there_already_replaces_it) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  save(run, folder.path(), 5);
  run.step(1);
  save(run, folder.path(), 5);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-000000005"));
  TrainedProgram resumed(plain(), 4);
  load(resumed.program(), find_newest(folder.path()).value(), resumed.model());
  expect_same(resumed.state(), run.state());
}

// Saves step 2 of a run on the device, which runs on, and goes on from there.
void expect_same_bits_of_steps_beside_the_copy(const std::shared_ptr<Device>& device, const Training& training,
                                               const std::function<void()>& behind_the_steps) {
  const RunFolder folder;
  TrainedProgram run(training, 3, 0, 1, Sharding::none, nullptr, device);
  for (std::int64_t i = 1; i <= 2; ++i) run.step(i);
  CheckpointWriter writer(run.program(),
                          {.folder = folder.path(), .model = run.model(), .device_room_bytes = std::size_t{1} << 30});
  EXPECT_GT(writer.device_bytes(), 0);
  EXPECT_EQ(writer.device_bytes(), writer.needed_device_bytes());
  writer.save(at(2));
  std::vector<float> losses;
  for (std::int64_t i = 3; i <= 5; ++i) losses.push_back(run.step(i));
  behind_the_steps();
  writer.finish();
  ASSERT_EQ(writer.take_problem(), std::nullopt);
  TrainedProgram resumed(training, 8, 0, 1, Sharding::none, nullptr, device);
  load(resumed.program(), find_newest(folder.path()).value(), resumed.model());
  for (std::int64_t i = 3; i <= 5; ++i) EXPECT_EQ(resumed.step(i), losses[static_cast<std::size_t>(i - 3)]);
  expect_same(resumed.state(), run.state());
}

TEST(Checkpoint, steps_go_on_while_the_copy_to_the_host_has_not_begun) {
  const auto device = std::make_shared<testing::LateDevice>();
  expect_same_bits_of_steps_beside_the_copy(device, plain(), [&] { device->let_copies_begin(); });
}

TEST(Checkpoint, has_parameters_whose_halves_were_copied_on_the_device) {
  const Training bf16 = trainings()[2];
  TrainedProgram run(bf16, 3);
  ASSERT_TRUE(std::ranges::any_of(run.program().state_parts(), &StatePart::is_split));
  const auto device = std::make_shared<testing::LateDevice>();
  expect_same_bits_of_steps_beside_the_copy(device, bf16, [&] { device->let_copies_begin(); });
}

TEST(Checkpoint, holds_the_step_up_where_the_device_has_no_room_for_a_copy) {
  const RunFolder folder;
  const auto device = std::make_shared<testing::LateDevice>();  // whose copies beside steps never begin
  TrainedProgram run(plain(), 3, 0, 1, Sharding::none, nullptr, device);
  run.step(1);
  const std::size_t before = device->waited_bytes;
  std::size_t needed = 0;
  {
    CheckpointWriter with_room(run.program(), {.folder = folder.path(), .device_room_bytes = std::size_t{1} << 30});
    needed = with_room.needed_device_bytes();
  }
  CheckpointWriter writer(run.program(),
                          {.folder = folder.path(), .model = run.model(), .device_room_bytes = needed - 1});
  EXPECT_EQ(writer.needed_device_bytes(), needed);
  EXPECT_EQ(writer.device_bytes(), 0);
  writer.save(at(1));
  EXPECT_GT(device->waited_bytes, before);
  writer.finish();
  ASSERT_EQ(writer.take_problem(), std::nullopt);
  TrainedProgram resumed(plain(), 8);
  load(resumed.program(), find_newest(folder.path()).value(), resumed.model());
  expect_same(resumed.state(), run.state());
}

TEST(Checkpoint, has_the_room_that_programs_and_libraries_leave) {
  constexpr std::size_t kGiB = std::size_t{1} << 30, kOfLibraries = kGiB / 2;
  // All is reserved already; half of it; and the caching allocator has still to reserve it.
  EXPECT_EQ(room_of_copy({80 * kGiB, 50 * kGiB, 30 * kGiB, 30 * kGiB}), 50 * kGiB - kOfLibraries);
  EXPECT_EQ(room_of_copy({80 * kGiB, 50 * kGiB, 30 * kGiB, 10 * kGiB}), 30 * kGiB - kOfLibraries);
  EXPECT_EQ(room_of_copy({80 * kGiB, 80 * kGiB, 30 * kGiB, 0}), 50 * kGiB - kOfLibraries);
  // A limit below the card; another process on the card; nothing left.
  EXPECT_EQ(room_of_copy({40 * kGiB, 50 * kGiB, 30 * kGiB, 30 * kGiB}), 10 * kGiB - kOfLibraries);
  EXPECT_EQ(room_of_copy({80 * kGiB, 5 * kGiB, 30 * kGiB, 30 * kGiB}), 5 * kGiB - kOfLibraries);
  EXPECT_EQ(room_of_copy({80 * kGiB, kGiB / 4, 30 * kGiB, 30 * kGiB}), 0);
  EXPECT_EQ(room_of_copy({30 * kGiB, 5 * kGiB, 30 * kGiB, 10 * kGiB}), 0);
}

class OnCardCheckpoint : public ::testing::TestWithParam<Training> {};

TEST_P(OnCardCheckpoint, steps_go_on_beside_the_copy_to_the_host) {
  if (!has_usable_cuda_card()) GTEST_SKIP() << "no card";
  expect_same_bits_of_steps_beside_the_copy(open_device("cuda"), GetParam(), [] {});
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, OnCardCheckpoint, ::testing::ValuesIn(trainings()),
                         [](const auto& info) { return info.param.name; });

TEST(Checkpoint, two_runs_do_not_write_to_one_folder) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  const CheckpointWriter writer(run.program(), {.folder = folder.path(), .model = run.model()});
  EXPECT_THAT(error_of([&] { CheckpointWriter(run.program(), {.folder = folder.path(), .model = run.model()}); }),
              HasSubstr("another run writes checkpoints to"));
}

}  // namespace
}  // namespace ridgepoint::train
