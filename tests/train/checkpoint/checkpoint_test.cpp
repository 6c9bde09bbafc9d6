// What comes back from a checkpoint: the same steps, bit by bit; and which checkpoint does.
#include "train/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <map>

#include "backends/cuda/device.h"
#include "core/build_info.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/huggingface/weights/model_weights.h"
#include "models/toy_model.h"
#include "ridgepoint/adapters.h"
#include "ridgepoint/error.h"
#include "support/graphs/rank_threads.h"
#include "train/checkpoint/late_device.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/state_copy.h"

namespace ridgepoint::train {
namespace {

using ridgepoint::testing::RankThreads;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

namespace fs = std::filesystem;

// A folder of checkpoints; the temporary folder itself is locked.
class RunFolder {
 public:
  RunFolder() { fs::create_directory(path()); }
  fs::path path() const { return folder_ / "run"; }
  fs::path operator/(std::string_view name) const { return path() / name; }

 private:
  TemporaryFolder folder_;
};

// Moments of one of its weights are codes: it has whole blocks of 256 in each row.
TransformerConfig tiny() {
  TransformerConfig config;
  config.layers = 2;
  config.d_model = 64;
  config.d_ff = 256;
  config.heads = 4;
  config.vocab = 97;
  config.context = 8;
  return config;
}

struct Training {
  std::string name;
  CompileOptions options = {};
  TransformerConfig config = tiny();

  friend void PrintTo(const Training& training, std::ostream* out) { *out << training.name; }
};

CompileOptions compiled_as(Precision precision, Compile level = Compile::full) {
  CompileOptions options;
  options.mode = Mode::step;
  options.level = level;
  options.precision = precision;
  return options;
}

std::vector<Training> trainings() {
  std::vector<Training> all = {
      {"fp32", compiled_as(Precision::fp32)},        {"fp32_eager", compiled_as(Precision::fp32, Compile::off)},
      {"bf16", compiled_as(Precision::bf16)},        {"fp16", compiled_as(Precision::fp16)},
      {"adamw_8bit", compiled_as(Precision::bf16)},  {"lora", compiled_as(Precision::bf16)},
      {"accumulated", compiled_as(Precision::fp32)}, {"sgd", compiled_as(Precision::fp32)}};
  all[3].options.loss_scaling.growth_interval = 2;  // so that the scale changes
  all[4].options.optimizer.kind = Optimizer::adamw_8bit;
  all[5].options.lora = LoraOptions{};
  all[6].options.accumulate = 2;
  all[7].options.optimizer.kind = Optimizer::sgd;
  return all;
}

// A program on one of the ranks, and the workload that it runs.
class TrainedProgram {
 public:
  TrainedProgram(const Training& training, std::uint64_t seed, std::int64_t rank = 0, std::int64_t ranks = 1,
                 Sharding shard = Sharding::none, const std::shared_ptr<Communicator>& communicator = nullptr,
                 const std::shared_ptr<Device>& device = open_device("cpu"))
      : workload_(training.config, 4),
        program_(workload_.build(), device,
                 {.compile = options(training, rank, ranks, shard), .communicator = communicator}),
        rank_(rank) {
    initialise(program_, workload_, seed);
  }

  Program& program() { return program_; }
  const TransformerConfig* model() const { return workload_.transformer(); }

  // The loss of a step, whose tokens follow from its number and the rank.
  float step(std::int64_t number) {
    for (const char* name : {"inputs", "targets"}) {
      HostTensor tokens = program_.read_input(name);
      std::int64_t i = number * 7 + rank_ * 3 + (name[0] == 't' ? 1 : 0);
      for (std::int64_t& token : tokens.as<std::int64_t>()) token = (i++ * 31) % 97;
      program_.write_input(name, tokens);
    }
    program_.run();
    program_.synchronize();
    return convert(program_.read_output("loss"), DType::fp32).as<float>()[0];
  }

  // What this rank stores, as bytes.
  std::map<std::string, std::vector<std::byte>> state() {
    program_.synchronize();
    std::map<std::string, std::vector<std::byte>> all;
    for (const StatePart& part : program_.state_parts()) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(part.end - part.begin) * size_bytes(part.stored));
      program_.read_part(part, bytes);
      all.emplace(part.name, std::move(bytes));
    }
    return all;
  }

 private:
  static CompileOptions options(const Training& training, std::int64_t rank, std::int64_t ranks, Sharding shard) {
    CompileOptions options = training.options;
    options.parallel = {.data = ranks, .rank = rank, .shard = shard};
    return options;
  }

  Transformer workload_;
  Program program_;
  std::int64_t rank_;
};

void expect_same(const std::map<std::string, std::vector<std::byte>>& found,
                 const std::map<std::string, std::vector<std::byte>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, bytes] : expected) EXPECT_TRUE(found.at(name) == bytes) << name;
}

Manifest at(std::int64_t step) {
  Manifest manifest;
  manifest.step = step;
  manifest.sequences = 4 * step;
  manifest.run = {{"seed", 1}, {"rate", 0.1}};
  return manifest;
}

void save(TrainedProgram& run, const fs::path& folder, std::int64_t step, const KeepRule& keep = {}) {
  CheckpointWriter writer(run.program(), {.folder = folder, .keep = keep, .model = run.model()});
  writer.save(at(step));
  writer.finish();
  EXPECT_EQ(writer.take_problem(), std::nullopt);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

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

// The tests below need no more than a model to save.
Training plain() { return trainings()[0]; }

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

class OnCardCheckpoint : public EachTraining {};

TEST_P(OnCardCheckpoint, steps_go_on_beside_the_copy_to_the_host) {
  if (!has_usable_cuda_card()) GTEST_SKIP() << "no card";
  expect_same_bits_of_steps_beside_the_copy(open_device("cuda"), GetParam(), [] {});
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, OnCardCheckpoint, ::testing::ValuesIn(trainings()),
                         [](const auto& info) { return info.param.name; });

TEST(Checkpoint, none_is_found_where_there_is_none) {
  const RunFolder folder;
  EXPECT_FALSE(find_newest(folder.path()));
  EXPECT_FALSE(find_newest(folder / "missing"));
}

TEST(Checkpoint, two_runs_do_not_write_to_one_folder) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  const CheckpointWriter writer(run.program(), {.folder = folder.path(), .model = run.model()});
  EXPECT_THAT([&] { CheckpointWriter(run.program(), {.folder = folder.path(), .model = run.model()}); },
              ThrowsMessage<Error>(HasSubstr("another run writes checkpoints to")));
}

// What damages the newest of two checkpoints, and the sentence about it.
struct Damage {
  std::string name;
  std::function<void(const fs::path& checkpoint)> make;
  std::string said;

  friend void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }
};

void flip_bit(const fs::path& file, std::uint64_t offset) {
  std::string text = read_file(file, std::uint64_t{1} << 30);
  text[offset] = static_cast<char>(text[offset] ^ 4);
  write_file(file, text);
}

void replace_text(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = read_file(file, std::uint64_t{1} << 30);
  const std::size_t place = text.find(from);
  ASSERT_NE(place, std::string::npos);
  write_file(file, text.replace(place, from.size(), to));
}

std::vector<Damage> damages() {
  const auto middle = [](const fs::path& file) { return fs::file_size(file) / 2; };
  return {
      {"truncated", [](const fs::path& c) { fs::resize_file(c / "optimizer.safetensors", 1000); }, "it has 1000 bytes"},
      {"longer", [](const fs::path& c) { std::ofstream(c / "config.json", std::ios::app) << " "; }, "bytes, and"},
      {"flipped", [=](const fs::path& c) { flip_bit(c / "model.safetensors", middle(c / "model.safetensors")); },
       "its checksum is not that of what was written"},
      {"flipped_header", [](const fs::path& c) { flip_bit(c / "optimizer.safetensors", 3); }, "its checksum"},
      {"missing_file", [](const fs::path& c) { fs::remove(c / "model.safetensors"); }, "No such file"},
      {"missing_manifest", [](const fs::path& c) { fs::remove(c / "manifest.json"); }, "it is half a checkpoint"},
      {"empty_manifest", [](const fs::path& c) { write_file(c / "manifest.json", ""); }, "manifest.json' is damaged"},
      {"half_a_manifest", [](const fs::path& c) { fs::resize_file(c / "manifest.json", 400); },
       "manifest.json' is damaged"},
      {"another_step", [](const fs::path& c) { replace_text(c / "manifest.json", "\"step\": 2", "\"step\": 3"); },
       "its checksum is of another text"},
      {"a_file_outside",
       [](const fs::path& c) { replace_text(c / "manifest.json", "\"model.safetensors", "\"../x.safetensors"); },
       "is outside of its folder"},
      {"another_version",
       [](const fs::path& c) { replace_text(c / "manifest.json", "\"version\": 1", "\"version\": 9"); },
       "it has version 9, and this program reads version 1"},
      {"another_format", [](const fs::path& c) { write_file(c / "manifest.json", R"({"format": "x"})"); },
       "it is of another format"},
      {"no_object", [](const fs::path& c) { write_file(c / "manifest.json", "[1]"); }, "it has no 'format'"},
  };
}

class EachDamage : public ::testing::TestWithParam<Damage> {};

TEST_P(EachDamage, makes_the_checkpoint_before_count_and_is_said) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  save(run, folder.path(), 1);
  save(run, folder.path(), 2);
  GetParam().make(folder / "step-000000002");
  const FoundCheckpoint found = find_newest(folder.path()).value();
  EXPECT_EQ(found.manifest.step, 1);
  EXPECT_THAT(found.passed_over, ElementsAre(AllOf(HasSubstr("step 2 is passed over"), HasSubstr(GetParam().said))));
  EXPECT_THAT([&] { find_newest(folder / "step-000000002"); }, ThrowsMessage<Error>(HasSubstr(GetParam().said)));
  EXPECT_EQ(find_newest(folder / "step-000000001").value().manifest.step, 1);
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, EachDamage, ::testing::ValuesIn(damages()),
                         [](const auto& info) { return info.param.name; });

TEST(Checkpoint, all_being_damaged_is_an_error) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  save(run, folder.path(), 1);
  fs::remove(folder / "step-000000001/model.safetensors");
  EXPECT_THAT([&] { find_newest(folder.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no checkpoint in"), HasSubstr("is whole"))));
}

TEST(Checkpoint, a_damaged_one_does_not_push_a_whole_one_out) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  save(run, folder.path(), 1);
  save(run, folder.path(), 4);
  fs::resize_file(folder / "step-000000004/model.safetensors", 10);
  save(run, folder.path(), 2, {.last = 1});
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-000000002", "step-000000004"));
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
  EXPECT_THAT([&] { load(resumed.program(), find_newest(folder.path()).value(), resumed.model()); },
              ThrowsMessage<Error>(HasSubstr(said)));
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

// Runs `body` in a process of its own, which must end with the code 0.
int exit_code_of(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The writing thread of a child process writes; the child has no other threads of this one, so its program has none.
TEST(Checkpoint, a_run_killed_at_any_change_of_the_disk_leaves_one_that_is_whole) {
  constexpr int kKilled = 128 + SIGKILL;
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  save(run, folder.path(), 1);
  const auto first = run.state();
  run.step(1);
  const auto second = run.state();
  int kills = 0;
  for (int at_change = 1;; ++at_change) {
    const int code = exit_code_of([&] {
      int changes = 0;
      CheckpointWriter writer(run.program(), {.folder = folder.path(),
                                              .keep = {.last = 1},
                                              .model = run.model(),
                                              .before_change = [&](const std::string&) {
                                                if (++changes == at_change) ::kill(::getpid(), SIGKILL);
                                              }});
      writer.save(at(2));
      writer.finish();
    });
    const FoundCheckpoint found = find_newest(folder.path()).value();
    EXPECT_THAT(found.passed_over, IsEmpty());
    TrainedProgram resumed(plain(), 4);
    load(resumed.program(), found, resumed.model());
    expect_same(resumed.state(), found.manifest.step == 1 ? first : second);
    if (code == 0) {
      EXPECT_EQ(found.manifest.step, 2);
      break;
    }
    ASSERT_EQ(code, kKilled);
    ++kills;
  }
  EXPECT_GE(kills, 6);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-000000002"));
}

TEST(Checkpoint, a_full_disk_leaves_the_one_before_and_is_said) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  save(run, folder.path(), 1);
  CheckpointWriter writer(run.program(), {.folder = folder.path(), .model = run.model()});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  writer.save(at(2));
  writer.finish();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(writer.take_problem().value_or(""),
              AllOf(HasSubstr("the checkpoint of step 2 was not written"), HasSubstr("File too large")));
  EXPECT_EQ(writer.take_problem(), std::nullopt);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-000000001"));
  writer.save(at(3));  // there is room again
  writer.finish();
  EXPECT_EQ(writer.take_problem(), std::nullopt);
  EXPECT_EQ(find_newest(folder.path()).value().manifest.step, 3);
}

TEST(Checkpoint, a_rank_that_cannot_write_leaves_the_one_before_and_the_first_rank_says_so) {
  const RunFolder folder;
  RankThreads threads(2);
  threads.run([&](std::size_t rank, const auto& others) {
    const auto group = threads.process_group(rank);
    TrainedProgram run(plain(), 3, static_cast<std::int64_t>(rank), 2, Sharding::optimizer, others);
    bool fails = false;
    CheckpointWriter writer(
        run.program(),
        {.folder = folder.path(), .group = group.get(), .model = run.model(), .before_change = [&](const std::string&) {
           if (fails && rank == 1) throw Error("No space left");
         }});
    writer.save(at(1));
    writer.finish();
    fails = true;
    writer.save(at(2));
    writer.finish();
    const std::optional<std::string> problem = writer.take_problem();
    if (rank == 0) EXPECT_THAT(problem.value_or(""), AllOf(HasSubstr("rank 1"), HasSubstr("No space left")));
    if (rank == 1) EXPECT_EQ(problem, std::nullopt);
    fails = false;
    writer.save(at(3));
    writer.finish();
    EXPECT_EQ(writer.take_problem(), std::nullopt);
    group->barrier();
  });
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-000000001", "step-000000003"));
}

}  // namespace
}  // namespace ridgepoint::train
