#include "core/files/disk_cache.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <string>

#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kAnotherUser = 65534;
constexpr std::uint64_t kPrivateLimit = 1 << 20;

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

class PrivateFolderTest : public ::testing::Test {
 protected:
  PrivateFolder made() { return *PrivateFolder::open(folder_.path(), "ours/kernels", true); }
  std::string refusal() {
    return error_of([&] { PrivateFolder::open(folder_.path(), "ours/kernels", true); });
  }
  std::size_t files() const {
    const fs::directory_iterator inside(folder_ / "ours/kernels");
    return static_cast<std::size_t>(std::distance(begin(inside), end(inside)));
  }

  TemporaryFolder folder_;
};

TEST_F(PrivateFolderTest, is_made_for_its_user_alone_whatever_the_umask) {
  const mode_t before = ::umask(0);
  PrivateFolder::open(folder_ / "not/yet", "ours/kernels", true)->write("file", "contents");
  ::umask(before);
  for (const char* made : {"not", "not/yet", "not/yet/ours", "not/yet/ours/kernels"}) {
    EXPECT_EQ(mode_of(folder_ / made), 0700U) << made;
  }
  EXPECT_EQ(mode_of(folder_ / "not/yet/ours/kernels/file"), 0600U);
}

TEST_F(PrivateFolderTest, is_not_made_by_looking_for_it) {
  EXPECT_FALSE(PrivateFolder::open(folder_.path(), "ours/kernels", false).has_value());
  EXPECT_FALSE(PrivateFolder::open(folder_ / "none", "ours/kernels", false).has_value());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(PrivateFolderTest, gives_back_what_was_written) {
  const PrivateFolder folder = made();
  EXPECT_EQ(folder.read("file", kPrivateLimit), std::nullopt);
  folder.write("file", "first");
  folder.write("file", std::string("\0second", 7));
  EXPECT_EQ(made().read("file", kPrivateLimit), std::string("\0second", 7));
  folder.write("file", "");
  EXPECT_EQ(folder.read("file", kPrivateLimit), "");
  EXPECT_EQ(files(), 1U);
}

TEST_F(PrivateFolderTest, withdraws_read_permission_of_others) {
  fs::create_directories(folder_ / "ours/kernels");
  fs::permissions(folder_ / "ours", fs::perms(0755));
  fs::permissions(folder_ / "ours/kernels", fs::perms(0755));
  made();
  EXPECT_EQ(mode_of(folder_ / "ours"), 0700U);
  EXPECT_EQ(mode_of(folder_ / "ours/kernels"), 0700U);
}

TEST_F(PrivateFolderTest, one_that_others_can_write_to_is_refused_at_every_level) {
  for (const char* level : {"ours", "ours/kernels"}) {
    for (const mode_t mode : {0770U, 0702U, 01777U}) {
      made();
      ASSERT_EQ(::chmod((folder_ / level).c_str(), mode), 0);
      EXPECT_THAT(refusal(),
                  AllOf(HasSubstr((folder_ / level).string()), HasSubstr("other users"), HasSubstr("delete")));
      EXPECT_THAT(error_of([&] { PrivateFolder::open(folder_.path(), "ours/kernels", false); }),
                  HasSubstr("other users"));
      EXPECT_EQ(mode_of(folder_ / level), mode) << "the mode of a refused folder is not changed";
      ASSERT_EQ(::chmod((folder_ / level).c_str(), 0700), 0);
    }
  }
}

TEST_F(PrivateFolderTest, one_of_another_user_is_refused_with_both_users) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  for (const char* level : {"ours", "ours/kernels"}) {
    made();
    ASSERT_EQ(::chown((folder_ / level).c_str(), kAnotherUser, kAnotherUser), 0);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("belongs to user 65534"), HasSubstr("as user 0")));
    ASSERT_EQ(::chown((folder_ / level).c_str(), 0, 0), 0);
  }
}

TEST_F(PrivateFolderTest, a_link_in_its_place_is_refused_and_one_above_it_is_not) {
  const TemporaryFolder elsewhere;
  fs::create_directory_symlink(elsewhere.path(), folder_ / "ours");
  EXPECT_THAT(refusal(), HasSubstr("is a symbolic link"));
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
  fs::remove(folder_ / "ours");
  fs::create_directory_symlink(elsewhere.path(), folder_ / "linked");
  PrivateFolder::open(folder_ / "linked", "ours/kernels", true)->write("file", "contents");
  EXPECT_TRUE(fs::exists(elsewhere / "ours/kernels/file"));
}

TEST_F(PrivateFolderTest, files_that_are_not_its_users_own_are_refused) {
  const PrivateFolder folder = made();
  const fs::path file = folder_ / "ours/kernels/file";
  const auto reading = [&] { return error_of([&] { folder.read("file", kPrivateLimit); }); };
  std::ofstream(folder_ / "planted") << "planted";
  fs::create_symlink(folder_ / "planted", file);
  EXPECT_THAT(reading(), HasSubstr("is a symbolic link"));
  folder.write("file", "ours");  // replaces the link
  EXPECT_EQ(folder.read("file", kPrivateLimit), "ours");
  EXPECT_EQ(fs::file_size(folder_ / "planted"), 7U);
  ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
  EXPECT_THAT(reading(), HasSubstr("other users"));
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_THAT(reading(), HasSubstr("not a regular file"));
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(reading(), HasSubstr("not a regular file"));
  if (::geteuid() != 0) return;
  folder.write("file", "ours");
  ASSERT_EQ(::chown(file.c_str(), kAnotherUser, kAnotherUser), 0);
  EXPECT_THAT(reading(), HasSubstr("belongs to user 65534"));
}

TEST_F(PrivateFolderTest, a_file_larger_than_allowed_is_refused) {
  const PrivateFolder folder = made();
  folder.write("file", std::string(101, 'x'));
  EXPECT_THAT(error_of([&] { folder.read("file", 100); }), HasSubstr("larger than the limit of 100 bytes"));
  EXPECT_EQ(folder.read("file", 101)->size(), 101U);
}

// RLIMIT_FSIZE stands for a full disk.
TEST_F(PrivateFolderTest, a_disk_that_is_full_leaves_what_was_there) {
  const PrivateFolder folder = made();
  folder.write("file", "before");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string refusal = error_of([&] { folder.write("file", std::string(5000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(refusal, HasSubstr("cannot write"));
  EXPECT_EQ(folder.read("file", kPrivateLimit), "before");
  EXPECT_EQ(files(), 1U) << "the part that was written is gone";
}

}  // namespace
}  // namespace ridgepoint
