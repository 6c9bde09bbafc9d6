// A file with tensors of a run: what is written comes back, and what happens where the disk fails.
#include "runtime/device/offload_file.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <vector>

#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "runtime/device/device.h"
#include "support/graphs/swap_in_file.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::counting_from;
using testing::FullDisk;
using testing::swapping_program;

namespace fs = std::filesystem;

constexpr std::int64_t kElements = 5'500'001;  // two pieces and a part, and no whole blocks

class OffloadFileTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_.path().string(); }

  TemporaryFolder folder_;
};

TEST_F(OffloadFileTest, keeps_what_is_written_anywhere_in_it) {
  constexpr std::size_t kBytes = 5 * kStagingPieceBytes / 2;
  OffloadFile file(path(), kBytes);
  file.set_staging(open_device("cpu")->allocate_host(kStagingBytes));
  std::vector<std::byte> expected(kBytes), found(kBytes);
  std::mt19937_64 random(1);
  for (const std::size_t most_bytes : {std::size_t{100}, std::size_t{10'000}, kBytes, kBytes, std::size_t{10'000}}) {
    const std::size_t begin = random() % kBytes, bytes = std::min(kBytes - begin, most_bytes);
    std::generate_n(expected.begin() + begin, bytes, [&] { return static_cast<std::byte>(random()); });
    file.write(OffloadFile::address_of(begin), {expected.data() + begin, bytes});
    file.read(OffloadFile::address_of(begin), {found.data() + begin, bytes});
    EXPECT_TRUE(std::ranges::equal(found, expected)) << begin << " " << bytes;
  }
  file.read(OffloadFile::address_of(0), found);
  EXPECT_EQ(found, expected);
  EXPECT_THAT(error_of([&] {
                file.read(OffloadFile::address_of(kBytes - 1), {found.data(), 2});
              }),
              HasSubstr("leaves the file"));
}

TEST_F(OffloadFileTest, has_all_of_its_bytes_at_once_and_no_name) {
  const std::uintmax_t before = fs::space(path()).free;
  const std::size_t bytes = std::size_t{64} << 20;
  const OffloadFile file(path(), bytes);
  EXPECT_EQ(file.bytes(), bytes);
  EXPECT_TRUE(fs::is_empty(path()));
  EXPECT_LE(fs::space(path()).free + bytes / 2, before) << "other programs may free some of the disk meanwhile";
}

TEST_F(OffloadFileTest, needs_a_folder_with_room) {
  const auto made_in = [](const std::string& folder, std::size_t bytes) {
    return [folder, bytes] { OffloadFile(folder, bytes); };
  };
  EXPECT_THAT(made_in(path() + "/none", 1), ThrowsMessage<Error>(AllOf(HasSubstr("cannot make a file in '" + path()),
                                                                       HasSubstr("name a folder that exists"))));
  std::ofstream(path() + "/file") << "x";
  EXPECT_THAT(made_in(path() + "/file", 1), ThrowsMessage<Error>(HasSubstr("Not a directory")));
  EXPECT_THAT(made_in(path(), std::size_t{1} << 60),
              ThrowsMessage<Error>(AllOf(HasSubstr("--offload-folder needs 1.00 EiB in '" + path() + "', where "),
                                         HasSubstr(" are free: No space left"), HasSubstr("on another disk"))));
  const FullDisk full(1 << 20);
  EXPECT_THAT(made_in(path(), 2 << 20), ThrowsMessage<Error>(HasSubstr("--offload-folder needs 2.00 MiB in")));
}

TEST_F(OffloadFileTest, is_read_and_written_by_a_program) {
  for (const Compile level : {Compile::off, Compile::full}) {
    Program program = swapping_program("cpu", path(), kElements, level);
    EXPECT_EQ(program.host_memory_bytes(), kStagingBytes);
    EXPECT_EQ(program.disk_bytes(), 2 * ((4 * kElements + 4095) / 4096 * 4096));
    const HostTensor a = counting_from(1, kElements), b = counting_from(0.5, kElements);
    program.write_input("a", a);
    program.write_input("b", b);
    for (int run = 0; run < 3; ++run) program.run();
    EXPECT_EQ(program.read_input("a").data, b.data);
    EXPECT_EQ(program.read_input("b").data, a.data);
  }
}

TEST_F(OffloadFileTest, ends_a_run_that_cannot_write_it) {
  Program program = swapping_program("cpu", path(), kElements);
  program.run();
  {
    const FullDisk full(1 << 20);
    EXPECT_THAT(error_of([&] { program.run(); }), AllOf(HasSubstr("cannot write to the file in '" + path() + "'"),
                                                        HasSubstr("File too large"), HasSubstr("from a checkpoint")));
  }
  const auto says_so_again = ThrowsMessage<Error>(HasSubstr("cannot write to the file"));
  EXPECT_THAT([&] { program.run(); }, says_so_again) << "its states are incomplete";
  EXPECT_THAT([&] { program.synchronize(); }, says_so_again);
  EXPECT_THAT([&] { program.read_input("a"); }, says_so_again);
}

// Of this process, by the name that it had.
std::optional<fs::path> descriptor_of_file() {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(entry, gone).string().find("ridgepoint-offload") != std::string::npos) return entry.path();
  }
  return std::nullopt;
}

TEST_F(OffloadFileTest, ends_a_run_that_cannot_read_it) {
  Program program = swapping_program("cpu", path(), kElements);
  const std::optional<fs::path> descriptor = descriptor_of_file();
  if (!descriptor) GTEST_SKIP() << "the system does not show what a process has open";
  fs::resize_file(*descriptor, 1 << 20);
  EXPECT_THAT(error_of([&] { program.run(); }),
              AllOf(HasSubstr("cannot read from the file"), HasSubstr("Input/output error")));
}

}  // namespace
}  // namespace ridgepoint
