#include "core/disk_cache.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/file.h"
#include "core/warning.h"
#include "support/temporary_folder.h"

namespace ridgepoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCacheTest() {
    set_warning_handler([this](std::string_view message) { warnings_.emplace_back(message); });
  }
  ~DiskCacheTest() override { set_warning_handler({}); }

  TemporaryFolder folder_;
  DiskCache cache_{folder_.path() / "deep" / "cache"};
  std::vector<std::string> warnings_;
};

TEST_F(DiskCacheTest, gives_back_what_was_stored_under_the_key) {
  EXPECT_EQ(cache_.load("a"), std::nullopt);
  const std::string binary("\0\n\xff", 3);
  cache_.store("a", binary);
  cache_.store("b\nwith lines", "");
  EXPECT_EQ(cache_.load("a"), binary);
  EXPECT_EQ(cache_.load("b\nwith lines"), "");
  EXPECT_EQ(DiskCache(folder_.path() / "deep" / "cache").load("a"), binary);  // as another process would
  cache_.store("a", "newer");
  EXPECT_EQ(cache_.load("a"), "newer");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(DiskCacheTest, takes_every_kind_of_damage_for_a_missing_entry_and_warns_once) {
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

TEST_F(DiskCacheTest, an_entry_of_another_key_in_its_place_is_not_taken) {
  cache_.store("key", "contents");
  std::filesystem::copy_file(cache_.path_of("key"), cache_.path_of("other"));
  EXPECT_EQ(cache_.load("other"), std::nullopt);
}

TEST_F(DiskCacheTest, a_folder_that_cannot_be_written_costs_one_warning) {
  std::ofstream(folder_ / "file") << "not a folder";
  const DiskCache cache(folder_.path() / "file" / "cache");
  cache.store("a", "1");
  cache.store("b", "2");
  EXPECT_EQ(cache.load("a"), std::nullopt);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("not written")));
}

TEST_F(DiskCacheTest, without_a_folder_nothing_is_kept_and_nothing_is_said) {
  const DiskCache cache{std::filesystem::path()};
  cache.store("a", "1");
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
