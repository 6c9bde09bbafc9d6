// The option --allocator of the commands that run models.

#include <string>
#include <vector>

#include "cli/toy_bench.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"
#include "support/records/csv_rows.h"

namespace ridgepoint {
namespace {

std::vector<Record> bench(std::vector<std::string> options) {
  options.insert(options.end(), {"--format", "jsonl"});
  const std::string output = output_of(run_program(toy_bench(options)));
  const TemporaryFolder folder;
  write_file(folder / "records", output);
  return read_records(folder / "records");
}

TEST(AllocatorOption, follows_the_compile_level_unless_it_is_given) {
  const std::vector<Record> records = bench({"--compile", "off,fuse,full"});
  ASSERT_THAT(records, SizeIs(3));
  EXPECT_EQ(records[0].allocator, AllocatorKind::caching);
  EXPECT_EQ(records[1].allocator, AllocatorKind::caching);
  EXPECT_EQ(records[2].allocator, AllocatorKind::arena);
}

TEST(AllocatorOption, can_be_swept) {
  const std::vector<Record> records = bench({"--compile", "off,full", "--allocator", "caching,arena"});
  ASSERT_THAT(records, SizeIs(4));
  for (std::size_t i = 0; i < 4; i += 2) {
    const Record &caching = records[i], &arena = records[i + 1];
    EXPECT_EQ(caching.allocator, AllocatorKind::caching);
    EXPECT_EQ(arena.allocator, AllocatorKind::arena);
    EXPECT_EQ(arena.memory_bytes.liveness_lower_bound, caching.memory_bytes.liveness_lower_bound);
    EXPECT_EQ(arena.memory_bytes.peak_allocated, arena.memory_bytes.liveness_lower_bound);
    EXPECT_EQ(arena.memory_bytes.planned_peak, arena.memory_bytes.peak_allocated);
    EXPECT_LT(arena.memory_bytes.peak_reserved, caching.memory_bytes.peak_reserved);
  }
  const ProgramResult table = run_program(toy_bench({"--allocator", "caching,arena", "--columns", "peak_reserved"}));
  EXPECT_THAT(table.output, AllOf(HasSubstr("allocator  mode  peak reserved"), HasSubstr("arena")));
  EXPECT_THAT(run_program(toy_bench({"--compile", "off,full"})).output, Not(HasSubstr("allocator")));
}

TEST(AllocatorOption, has_a_column_in_csv) {
  const auto rows = csv_rows(run_program(toy_bench({"--allocator", "arena", "--format", "csv"})).output);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].at("allocator"), "arena");
  EXPECT_GT(std::stoll(rows[0].at("memory_bytes.liveness_lower_bound")), 0);
}

TEST(AllocatorOption, goes_on_after_an_arena_that_does_not_fit) {
  const std::vector<Record> records = bench({"--allocator", "arena", "--batch", "2,2000,2", "--memory-limit", "6MiB"});
  ASSERT_THAT(records, SizeIs(3));
  EXPECT_EQ(records[0].status, RunStatus::ok) << records[0].error.message;
  EXPECT_EQ(records[1].status, RunStatus::oom);
  EXPECT_EQ(records[2].status, RunStatus::ok) << records[2].error.message;
  EXPECT_THAT(records[1].error.message, AllOf(HasSubstr("for the arena of all buffers: asked for "),
                                              HasSubstr("most of it at its peak: "), HasSubstr("use a smaller batch")));
  EXPECT_LE(records[0].memory_bytes.peak_reserved, 6 << 20);
}

TEST(AllocatorOption, belongs_to_every_command_that_runs_a_model) {
  const std::vector<std::string> toy = {"--device", "cpu", "--layers",  "1", "--d-model",   "16",
                                        "--d-ff",   "24",  "--heads",   "2", "--vocab",     "50",
                                        "--batch",  "2",   "--context", "8", "--allocator", "arena"};
  for (const char* command : {"verify", "profile"}) {
    std::vector<std::string> arguments = toy;
    arguments.insert(arguments.begin(), command);
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 0) << command << ": " << result.error;
  }
  const auto errors = [&](const std::string& allocator) {
    std::vector<std::string> arguments = with_options(toy, {"--allocator", allocator, "--format", "csv"});
    arguments.insert(arguments.begin(), {"precision", "--error"});
    return output_of(run_program(arguments));
  };
  EXPECT_EQ(errors("arena"), errors("caching"));
}

TEST(AllocatorOption, names_the_nearest_of_what_it_does_not_know_and_is_refused_where_it_changes_nothing) {
  const auto error = [](const std::vector<std::string>& arguments) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2);
    return result.error;
  };
  EXPECT_THAT(error({"bench", "--allocator", "arean"}), HasSubstr("did you mean 'arena'"));
  EXPECT_THAT(error({"bench", "--allocator", "pool"}), HasSubstr("available: caching, arena"));
  EXPECT_THAT(error({"graph", "--allocator", "arena"}), HasSubstr("--allocator"));
  EXPECT_THAT(error({"precision", "--autocast", "bf16", "--allocator", "arena"}), HasSubstr("--autocast runs nothing"));
}

}  // namespace
}  // namespace ridgepoint
