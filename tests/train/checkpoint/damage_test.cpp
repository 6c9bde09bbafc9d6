// Damaged checkpoints, killed runs and disks that are full: the checkpoint before is used.
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <functional>

#include "core/files/file.h"
#include "ridgepoint/core/error.h"
#include "support/graphs/rank_threads.h"
#include "support/matchers.h"
#include "train/checkpoint/trained_program.h"

namespace ridgepoint::train {
namespace {

using ridgepoint::testing::RankThreads;

namespace fs = std::filesystem;

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
      {"another_noise", [](const fs::path& c) { replace_text(c / "manifest.json", "0.0625", "null"); },
       "its 'noise' are no two numbers"},
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
  EXPECT_THAT(error_of([&] { find_newest(folder / "step-000000002"); }), HasSubstr(GetParam().said));
  EXPECT_EQ(find_newest(folder / "step-000000001").value().manifest.step, 1);
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, EachDamage, ::testing::ValuesIn(damages()),
                         [](const auto& info) { return info.param.name; });

TEST(Checkpoint, all_being_damaged_is_an_error) {
  const RunFolder folder;
  TrainedProgram run(plain(), 3);
  save(run, folder.path(), 1);
  fs::remove(folder / "step-000000001/model.safetensors");
  EXPECT_THAT(error_of([&] { find_newest(folder.path()); }),
              AllOf(HasSubstr("no checkpoint in"), HasSubstr("is whole")));
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
