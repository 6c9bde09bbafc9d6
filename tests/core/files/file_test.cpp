#include "core/files/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "core/files/leftovers.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t kLimit = 1000;

std::size_t files_in(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

TEST(File, reads_what_was_written) {
  const TemporaryFolder folder;
  write_file(folder / "a", "one\0two");
  EXPECT_EQ(read_file(folder / "a", kLimit), "one\0two");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(File, refuses_to_read_past_the_limit) {
  const TemporaryFolder folder;
  write_file(folder / "a", std::string(11, 'x'));
  EXPECT_EQ(read_file(folder / "a", 11).size(), 11u);
  EXPECT_THAT(error_of([&] { read_file(folder / "a", 10); }), AllOf(HasSubstr("/a'"), HasSubstr("10 bytes")));
}

TEST(File, an_endless_file_is_read_up_to_the_limit_only) { EXPECT_THROW(read_file("/dev/zero", kLimit), Error); }

TEST(File, a_missing_file_is_an_error_with_its_path_and_the_reason) {
  EXPECT_THAT(error_of([&] { read_file("/nowhere/x", kLimit); }),
              AllOf(HasSubstr("/nowhere/x"), HasSubstr("No such file")));
  EXPECT_THAT(error_of([&] { InputFile("/nowhere/x"); }), AllOf(HasSubstr("/nowhere/x"), HasSubstr("No such file")));
}

TEST(File, a_folder_is_not_read_as_a_file) {
  EXPECT_THROW(read_file("/tmp", kLimit), Error);
  EXPECT_THAT(error_of([&] { InputFile("/tmp"); }), HasSubstr("a folder"));
}

TEST(File, a_pipe_without_a_writer_does_not_hang) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { InputFile(folder / "pipe"); }), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of([&] { read_file(folder / "pipe", kLimit); }), HasSubstr("no program writes to this pipe"));
  check_writable(folder / "pipe");
  EXPECT_THAT(error_of([&] { write_file(folder / "pipe", "x"); }), HasSubstr("no program reads from this pipe"));
}

TEST(File, a_pipe_passes_on_what_its_writer_writes_later) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the reader is there before
    const Descriptor pipe(::open((folder / "pipe").c_str(), O_WRONLY));
    for (const char* text : {"one ", "two"}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ASSERT_GT(::write(pipe.number(), text, std::string_view(text).size()), 0);
    }
  });
  EXPECT_EQ(read_file(folder / "pipe", kLimit), "one two");
  writer.join();
}

TEST(File, reads_at_an_offset_and_no_further_than_the_end) {
  const TemporaryFolder folder;
  write_file(folder / "a", "0123456789");
  const InputFile file(folder / "a");
  std::array<char, 4> got{};
  file.read_at(6, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(std::string_view(got.data(), got.size()), "6789");
  EXPECT_THROW(file.read_at(7, std::as_writable_bytes(std::span(got))), Error);
  EXPECT_THROW(file.read_at(UINT64_MAX, std::as_writable_bytes(std::span(got))), Error);
}

TEST(File, a_file_truncated_while_open_is_an_error) {
  const TemporaryFolder folder;
  write_file(folder / "a", "0123456789");
  const InputFile file(folder / "a");
  std::filesystem::resize_file(folder / "a", 5);
  std::array<std::byte, 10> into{};
  EXPECT_THAT(error_of([&] { file.read_at(0, into); }), HasSubstr("truncated"));
}

TEST(File, nothing_appears_before_commit_and_nothing_stays_without_it) {
  const TemporaryFolder folder;
  {
    OutputFile file(folder / "a");
    file.write("half");
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  }
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(File, an_abandoned_write_leaves_the_old_content) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  { OutputFile(folder / "a").write("new"); }
  EXPECT_EQ(read_file(folder / "a", kLimit), "old");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(File, a_write_that_fails_half_way_leaves_the_old_content) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT(error_of([&] { write_file(folder / "a", std::string(10000, 'x')); }),
              HasSubstr("File too large; raise the limit"));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(folder / "a", kLimit), "old");
  EXPECT_EQ(files_in(folder), 1u);
}

// Above what goes past the page cache, and no multiple of what a disk writes at once.
constexpr std::size_t kLargeBytes = (std::size_t{100} << 20) + 1237;

TEST(File, a_large_one_has_every_byte_at_its_place) {
  const TemporaryFolder folder;
  std::string text(kLargeBytes, 'x');
  for (std::size_t i = 0; i < text.size(); i += 997) text[i] = static_cast<char>(i / 997);
  Checksum sum, expected;
  {
    OutputFile file(folder / "a");
    file.count_in(&sum);
    file.expect(text.size());
    for (std::size_t i = 0; i < text.size(); i += 5'000'011) file.write(std::string_view(text).substr(i, 5'000'011));
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
    file.commit();
  }
  EXPECT_TRUE(read_file(folder / "a", 2 * kLargeBytes) == text);
  expected.add(text);
  EXPECT_EQ(sum.value(), expected.value());
  { OutputFile(folder / "b").expect(text.size()); }
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(File, a_large_one_that_does_not_fit_is_an_error_and_nothing_stays) {
  const TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{kLargeBytes / 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT(error_of([&] {
                OutputFile file(folder / "a");
                file.expect(kLargeBytes);
                file.write(std::string(kLargeBytes, 'x'));
                file.commit();
              }),
              HasSubstr("File too large; raise the limit"));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(File, a_missing_folder_is_an_error_before_the_work) {
  EXPECT_THAT(error_of([] { OutputFile("/nowhere/x"); }),
              AllOf(HasSubstr("/nowhere/x"), HasSubstr("No such file"), HasSubstr("make the folder '/nowhere' first")));
  EXPECT_THROW(check_writable("/nowhere/x"), Error);
}

TEST(File, a_full_disk_is_an_error_that_asks_for_room) {
  EXPECT_THAT(error_of([] { write_file("/dev/full", "x"); }),
              AllOf(HasSubstr("No space left"), HasSubstr("make room there")));
}

TEST(File, a_folder_or_an_empty_name_cannot_be_written) {
  EXPECT_THROW(write_file("/tmp", "x"), Error);
  EXPECT_THROW(write_file("/tmp/", "x"), Error);
  EXPECT_THROW(write_file("", "x"), Error);
}

TEST(File, checking_leaves_no_trace) {
  const TemporaryFolder folder;
  check_writable(folder / "a");
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(File, a_device_is_written_directly_and_stays_a_device) {
  write_file("/dev/null", "x");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(File, a_link_is_followed_and_stays_a_link) {
  const TemporaryFolder folder;
  write_file(folder / "target", "old");
  std::filesystem::create_symlink(folder / "target", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "target", kLimit), "new");
}

TEST(File, a_link_that_leads_to_no_file_yet_is_followed) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "inner");
  std::filesystem::create_symlink("../target", folder / "inner/second");
  std::filesystem::create_symlink("inner/second", folder / "first");
  write_file(folder / "first", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "first"));
  EXPECT_EQ(read_file(folder / "target", kLimit), "new");
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_THROW(write_file(folder / "loop", "x"), Error);
}

void make_old(const std::filesystem::path& path) {
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
}

TEST(File, what_a_killed_process_left_is_removed) {
  const TemporaryFolder folder;
  for (const char* name : {".a.1.1.tmp", ".a.1.2.tmp", ".b.1.1.tmp", ".a.x.1.tmp", ".a.1.3.tmp"})
    std::ofstream(folder / name) << "half";
  for (const char* name : {".a.1.1.tmp", ".a.1.2.tmp", ".b.1.1.tmp", ".a.x.1.tmp"}) make_old(folder / name);
  const Descriptor in_use(::open((folder / ".a.1.2.tmp").c_str(), O_RDONLY));
  mark_in_use(in_use.number());
  remove_leftovers(folder.path(), [](std::string_view name) { return is_temporary_name(name, "a"); });
  EXPECT_FALSE(std::filesystem::exists(folder / ".a.1.1.tmp"));
  // In use, of another file, of another program, young.
  for (const char* name : {".a.1.2.tmp", ".b.1.1.tmp", ".a.x.1.tmp", ".a.1.3.tmp"})
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
}

TEST(TemporaryFolder, removes_those_of_killed_processes) {
  const TemporaryFolder base;
  const char* before = std::getenv("TMPDIR");
  const std::string old_value = before == nullptr ? "" : before;
  std::filesystem::create_directories(base / "ridgepoint.abcdef/inner");
  make_old(base / "ridgepoint.abcdef");
  ::setenv("TMPDIR", base.path().c_str(), 1);
  { const TemporaryFolder folder; }
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", old_value.c_str(), 1);
  EXPECT_FALSE(std::filesystem::exists(base / "ridgepoint.abcdef"));
}

TEST(File, permissions_of_a_replaced_file_are_kept) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  std::filesystem::permissions(folder / "a", std::filesystem::perms{0640});
  write_file(folder / "a", "new");
  EXPECT_EQ(std::filesystem::status(folder / "a").permissions(), std::filesystem::perms{0640});
}

TEST(File, a_new_file_has_the_permissions_the_umask_leaves) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_file(folder / "a", "x");
  ::umask(before);
  EXPECT_EQ(std::filesystem::status(folder / "a").permissions(), std::filesystem::perms{0640});
}

}  // namespace
}  // namespace ridgepoint
