#include "core/files/disk_cache.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "core/warning.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCacheTest() {
    set_warning_handler([this](std::string_view message) { warnings_.emplace_back(message); });
  }
  ~DiskCacheTest() override { set_warning_handler({}); }

  TemporaryFolder folder_;
  DiskCache cache_{folder_.path() / "deep", "cache"};
  std::vector<std::string> warnings_;
};

TEST_F(DiskCacheTest, gives_back_what_was_stored_under_the_key) {
  EXPECT_EQ(cache_.load("a"), std::nullopt);
  const std::string binary("\0\n\xff", 3);
  cache_.store("a", binary);
  cache_.store("b\nwith lines", "");
  EXPECT_EQ(cache_.load("a"), binary);
  EXPECT_EQ(cache_.load("b\nwith lines"), "");
  EXPECT_EQ(DiskCache(folder_.path() / "deep", "cache").load("a"), binary);  // as another process would
  cache_.store("a", "newer");
  EXPECT_EQ(cache_.load("a"), "newer");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(DiskCacheTest, treats_a_damaged_entry_as_missing_and_warns_once) {
  cache_.store("key", "some contents");
  const std::string whole = read_file(cache_.path_of("key"), 1 << 20);
  std::string flipped = whole;
  flipped.back() ^= 1;
  for (const std::string& damaged : {std::string(), std::string("\n"), whole.substr(0, whole.size() - 1), whole + "x",
                                     flipped, std::string(5000, 'z')}) {
    std::ofstream(cache_.path_of("key"), std::ios::binary) << damaged;
    EXPECT_EQ(cache_.load("key"), std::nullopt);
  }
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("damaged")));
  cache_.store("key", "mended");
  EXPECT_EQ(cache_.load("key"), "mended");
}

TEST_F(DiskCacheTest, an_entry_of_another_key_is_not_returned) {
  cache_.store("key", "contents");
  std::filesystem::copy_file(cache_.path_of("key"), cache_.path_of("other"));
  EXPECT_EQ(cache_.load("other"), std::nullopt);
}

TEST_F(DiskCacheTest, a_folder_that_cannot_be_written_costs_one_warning) {
  std::ofstream(folder_ / "file") << "not a folder";
  const DiskCache cache(folder_ / "file", "cache");
  cache.store("a", "1");
  DiskCache(folder_ / "file", "another").store("b", "2");
  EXPECT_EQ(cache.load("a"), std::nullopt);
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("not cached"), HasSubstr("XDG_CACHE_HOME"))));
}

TEST_F(DiskCacheTest, a_folder_that_others_can_write_to_is_neither_read_nor_written) {
  cache_.store("key", "contents");
  std::filesystem::permissions(cache_.path_of("key").parent_path(), std::filesystem::perms::all);
  EXPECT_EQ(cache_.load("key"), std::nullopt);
  cache_.store("key", "newer");
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr("not used"), HasSubstr("other users"), HasSubstr("XDG_CACHE_HOME"))));
  std::filesystem::permissions(cache_.path_of("key").parent_path(), std::filesystem::perms::owner_all);
  EXPECT_EQ(cache_.load("key"), "contents");
}

TEST_F(DiskCacheTest, a_link_in_an_entrys_place_is_not_followed_and_is_replaced) {
  cache_.store("key", "contents");
  std::filesystem::rename(cache_.path_of("key"), folder_ / "moved");
  std::filesystem::create_symlink(folder_ / "moved", cache_.path_of("key"));
  EXPECT_EQ(cache_.load("key"), std::nullopt);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("is a symbolic link")));
  cache_.store("key", "newer");
  EXPECT_EQ(cache_.load("key"), "newer");
  EXPECT_FALSE(std::filesystem::is_symlink(cache_.path_of("key")));
}

// Root can write to every folder, so the process becomes another user for the lifetime of this object.
class OrdinaryUser {
 public:
  explicit OrdinaryUser(const std::filesystem::path& folder) {
    constexpr uid_t kNobody = 65534;
    if (before_ != 0) return;
    EXPECT_EQ(::chown(folder.c_str(), kNobody, kNobody), 0);
    EXPECT_EQ(::seteuid(kNobody), 0);
  }
  ~OrdinaryUser() { EXPECT_EQ(::seteuid(before_), 0); }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

 private:
  uid_t before_ = ::geteuid();
};

TEST_F(DiskCacheTest, a_folder_that_can_only_be_read_is_read) {
  const OrdinaryUser user(folder_.path());
  cache_.store("key", "contents");
  const std::filesystem::path folder = cache_.path_of("key").parent_path();
  ASSERT_EQ(::chmod(folder.c_str(), 0500), 0);
  EXPECT_EQ(cache_.load("key"), "contents");
  EXPECT_THAT(warnings_, IsEmpty());
  cache_.store("other", "contents");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("not cached")));
  EXPECT_EQ(::chmod(folder.c_str(), 0700), 0);
}

bool accept_all(const std::string&) { return true; }

TEST_F(DiskCacheTest, the_first_entry_stays_unless_it_is_damaged_or_not_accepted) {
  EXPECT_EQ(cache_.store_first("a", "1", accept_all), "1");
  EXPECT_EQ(cache_.store_first("a", "2", accept_all), "1");
  EXPECT_EQ(cache_.load("a"), "1");
  std::ofstream(cache_.path_of("a"), std::ios::binary) << "damage";
  EXPECT_EQ(cache_.store_first("a", "3", accept_all), "3");
  EXPECT_EQ(cache_.load("a"), "3");
  EXPECT_EQ(cache_.store_first("a", "4", [](const std::string& first) { return first != "3"; }), "4");
  EXPECT_EQ(cache_.load("a"), "4");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("damaged")));
}

TEST_F(DiskCacheTest, processes_that_store_first_at_once_go_on_with_the_same_contents) {
  for (int key = 0; key < 20; ++key) {
    std::vector<pid_t> children;
    for (int child = 0; child < 4; ++child) {
      const pid_t pid = ::fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        const std::string mine(5000, static_cast<char>('a' + child));
        std::_Exit(cache_.store_first(std::to_string(key), mine, accept_all)[0]);
      }
      children.push_back(pid);
    }
    const auto end_of = [](pid_t pid) {
      int status = 0;
      ::waitpid(pid, &status, 0);
      return static_cast<char>(WEXITSTATUS(status));
    };
    std::string taken;
    for (const pid_t pid : children) taken += end_of(pid);
    EXPECT_EQ(taken, std::string(4, cache_.load(std::to_string(key)).value_or("?")[0]));
  }
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(DiskCacheTest, without_a_folder_nothing_is_kept_and_nothing_is_said) {
  const DiskCache cache{std::filesystem::path(), "cache"};
  cache.store("a", "1");
  EXPECT_EQ(cache.store_first("a", "2", accept_all), "2");
  EXPECT_EQ(cache.load("a"), std::nullopt);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(DiskCacheTest, writers_and_readers_at_once_see_whole_entries) {
  const std::string one(100'000, '1');
  const std::string two(70'000, '2');
  std::vector<std::thread> threads;
  for (const std::string* contents : {&one, &two}) {
    threads.emplace_back([&, contents] {
      for (int i = 0; i < 20; ++i) cache_.store("shared", *contents);
    });
  }
  for (int i = 0; i < 200; ++i) {
    const std::optional<std::string> found = cache_.load("shared");
    EXPECT_TRUE(!found || *found == one || *found == two);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(DiskCacheTest, processes_that_write_at_once_leave_a_whole_entry_and_nothing_else) {
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      for (int i = 0; i < 25; ++i) cache_.store("shared", std::string(50'000, static_cast<char>('a' + child)));
      std::_Exit(0);
    }
    children.push_back(pid);
  }
  bool are_whole = true;
  for (int i = 0; i < 200; ++i) {
    const std::optional<std::string> found = cache_.load("shared");
    are_whole &= !found || (found->size() == 50'000 && found->find_first_not_of(found->front()) == std::string::npos);
  }
  for (const pid_t pid : children) ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(are_whole);
  EXPECT_TRUE(cache_.load("shared").has_value());
  const std::filesystem::directory_iterator inside(cache_.path_of("shared").parent_path());
  EXPECT_EQ(std::distance(begin(inside), end(inside)), 1);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST(Warning, reaches_the_handler_once_a_topic) {
  std::vector<std::string> heard;
  warn_once("topic", "before anyone listens");
  set_warning_handler([&](std::string_view message) { heard.emplace_back(message); });
  warn_once("topic", "first");
  warn_once("topic", "second");
  warn_once("another", "third");
  set_warning_handler({});
  warn_once("last", "after");
  EXPECT_THAT(heard, ElementsAre("first", "third"));
}

}  // namespace
}  // namespace ridgepoint
