// The folder of a study: what is kept, what is refused, and what --restart removes.
#include "study/folder.h"

#include <sys/stat.h>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

const Json kConfiguration = {{"device", "cpu"}, {"quick", true}};

class StudyFolderTest : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.file(name); }

  TemporaryFolder temporary_;
  StudyFolder folder_{temporary_.path() / "study"};
};

TEST_F(StudyFolderTest, keeps_configuration_plan_rows_and_log) {
  folder_.create(kConfiguration);
  EXPECT_EQ(folder_.manifest().plan(), std::nullopt);
  const StudyPartPlan part{StudyPart::sizes, "Sizes", {{{"bench", "--model", "tiny"}, 6, 1.5}}};
  folder_.manifest().write(kConfiguration, std::vector{part});
  folder_.append_row(StudyPart::sizes, R"({"row":1})");
  folder_.append_row(StudyPart::sizes, R"({"row":2})");
  folder_.append({.part = StudyPart::sizes, .command = 0, .rows = 2, .exit_code = 1, .problem = "it broke"});

  EXPECT_EQ(folder_.manifest().configuration(), kConfiguration);
  ASSERT_THAT(*folder_.manifest().plan(), SizeIs(1));
  const StudyCommand command = folder_.manifest().plan()->front().commands.front();
  EXPECT_THAT(command.arguments, ElementsAre("bench", "--model", "tiny"));
  EXPECT_EQ(command.rows, 6);
  EXPECT_THAT(folder_.rows(StudyPart::sizes), ElementsAre(Json{{"row", 1}}, Json{{"row", 2}}));
  ASSERT_THAT(folder_.log(), SizeIs(1));
  EXPECT_EQ(folder_.log()[0].problem, "it broke");
  EXPECT_EQ(folder_.log()[0].rows, 2);
}

TEST_F(StudyFolderTest, refuses_a_folder_with_other_files) {
  fs::create_directories(folder_.path());
  write_file(path("thesis.tex"), "years of work");
  EXPECT_THAT(error_of([&] { folder_.create(kConfiguration); }), HasSubstr("has files that are not a study's"));
  EXPECT_EQ(read_file(path("thesis.tex"), 100), "years of work");
}

TEST_F(StudyFolderTest, refuses_a_file_and_a_place_without_folders) {
  write_file(folder_.path(), "a file");
  EXPECT_THAT(error_of([&] { folder_.create(kConfiguration); }), HasSubstr("is a file"));
  EXPECT_THAT(error_of([] { StudyFolder("/proc/study").create(kConfiguration); }),
              HasSubstr("cannot make the folder '/proc/study'"));
}

TEST_F(StudyFolderTest, begins_where_a_killed_process_left_an_unfinished_manifest) {
  fs::create_directories(folder_.path());
  write_file(path(".study.json.123.1.tmp"), "{");
  folder_.create(kConfiguration);
  EXPECT_EQ(folder_.manifest().configuration(), kConfiguration);
}

TEST_F(StudyFolderTest, drops_an_incomplete_last_line_and_names_its_file) {
  folder_.create(kConfiguration);
  write_file(path("records/sizes.jsonl"), "{\"row\":1}\n{\"ro");
  EXPECT_THAT(folder_.drop_incomplete_lines(), ElementsAre("sizes.jsonl"));
  EXPECT_THAT(folder_.drop_incomplete_lines(), SizeIs(0));
  folder_.append_row(StudyPart::sizes, R"({"row":2})");
  EXPECT_THAT(folder_.rows(StudyPart::sizes), ElementsAre(Json{{"row", 1}}, Json{{"row", 2}}));
}

TEST_F(StudyFolderTest, names_the_line_of_damage_in_the_middle) {
  folder_.create(kConfiguration);
  write_file(path("records/sizes.jsonl"), "{\"row\":1}\n{\"ro\n{\"row\":3}\n");
  EXPECT_THAT(error_of([&] { folder_.rows(StudyPart::sizes); }),
              AllOf(HasSubstr("sizes.jsonl' is damaged: line 2"), HasSubstr("--restart")));
}

TEST_F(StudyFolderTest, refuses_a_manifest_of_another_schema) {
  folder_.create(kConfiguration);
  write_file(path("study.json"), R"({"schema":99,"configuration":{},"parts":[]})");
  EXPECT_THAT(error_of([&] { folder_.manifest().configuration(); }), HasSubstr("another version of the program"));
}

TEST_F(StudyFolderTest, restart_removes_its_own_files_alone) {
  folder_.create(kConfiguration);
  folder_.append_row(StudyPart::sizes, "{}");
  folder_.manifest().note_files({"pictures/time_by_size.svg", "README.md"});
  folder_.manifest().note_files({"report.html"});
  for (const char* own : {"pictures/time_by_size.svg", "README.md", "report.html"}) write_file(path(own), "own");
  for (const char* other : {"notes.md", "pictures/photo.svg", "records/mine.jsonl"}) write_file(path(other), "other");
  folder_.restart({{"device", "cuda"}});
  for (const char* own : {"records/sizes.jsonl", "pictures/time_by_size.svg", "README.md", "report.html"})
    EXPECT_FALSE(fs::exists(path(own))) << own;
  for (const char* other : {"notes.md", "pictures/photo.svg", "records/mine.jsonl"})
    EXPECT_TRUE(fs::exists(path(other))) << other;
  EXPECT_EQ(folder_.manifest().configuration()["device"], "cuda");
  EXPECT_EQ(folder_.manifest().plan(), std::nullopt);
}

TEST_F(StudyFolderTest, restart_removes_nothing_outside_its_folder) {
  const fs::path outside = temporary_.path() / "outside";
  write_file(outside, "other");
  folder_.create(kConfiguration);
  folder_.manifest().note_files({"../outside", outside.string(), "tables/../../outside"});
  folder_.restart(kConfiguration);
  EXPECT_TRUE(fs::exists(outside));
}

TEST_F(StudyFolderTest, refuses_links_wherever_they_lead) {
  folder_.create(kConfiguration);
  const fs::path outside = temporary_.path() / "outside";
  fs::create_directory(outside);
  write_file(outside / "sizes.jsonl", "{\"secret\":1}\n");
  const auto refuses = [&](const char* name, const fs::path& target, const std::function<void()>& call) {
    const fs::path place = folder_.path() / name;
    const bool had = fs::exists(place);
    if (had) fs::rename(place, temporary_.path() / "aside");
    fs::create_symlink(target, place);
    EXPECT_THAT(error_of(call),
                AllOf(HasSubstr(place.string() + "' is a symbolic link"), HasSubstr("remove the link")));
    fs::remove(place);
    if (had) fs::rename(temporary_.path() / "aside", place);
  };
  const auto read = [&] { folder_.rows(StudyPart::sizes); };
  refuses("records/sizes.jsonl", outside / "sizes.jsonl", read);
  refuses("records/sizes.jsonl", outside / "missing", [&] { folder_.append_row(StudyPart::sizes, "{}"); });
  refuses("records/sizes.jsonl", outside / "sizes.jsonl", [&] { folder_.keep_rows(StudyPart::sizes, 0); });
  refuses("records/sizes.jsonl", outside / "sizes.jsonl", [&] { folder_.drop_incomplete_lines(); });
  refuses("records", outside, read);
  refuses("records", outside, [&] { folder_.make_folders(); });
  refuses("log.jsonl", outside / "missing", [&] { folder_.append(StudyLogEntry{}); });
  refuses("log.jsonl", outside / "sizes.jsonl", [&] { folder_.log(); });
  refuses("study.json", outside / "missing", [&] { folder_.manifest().write(kConfiguration, {}); });
  refuses("tables", outside, [&] { folder_.file("tables/sizes.md"); });
  folder_.manifest().note_files({"tables/sizes.jsonl"});
  refuses("tables", outside, [&] { folder_.restart(kConfiguration); });
  EXPECT_EQ(read_file(outside / "sizes.jsonl", 100), "{\"secret\":1}\n");
  EXPECT_FALSE(fs::exists(outside / "missing"));
}

TEST_F(StudyFolderTest, may_be_reached_by_a_link) {
  folder_.create(kConfiguration);
  const fs::path link = temporary_.path() / "link";
  fs::create_directory_symlink(folder_.path(), link);
  EXPECT_EQ(StudyFolder(link).manifest().configuration(), kConfiguration);
}

TEST_F(StudyFolderTest, refuses_pipes_which_would_never_end) {
  folder_.create(kConfiguration);
  ASSERT_EQ(::mkfifo((folder_.path() / "log.jsonl").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { folder_.log(); }), HasSubstr("log.jsonl' is a device or pipe"));
}

TEST_F(StudyFolderTest, says_which_file_is_damaged) {
  folder_.create(kConfiguration);
  const std::string deep = "{\"x\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  write_file(path("records/sizes.jsonl"), "{}\n" + deep + "\n");
  EXPECT_THAT(error_of([&] { folder_.rows(StudyPart::sizes); }),
              HasSubstr("sizes.jsonl' is damaged: line 2 is nested deeper than 64 levels; give --restart"));
  for (const char* line : {R"({"part":"weather","command":0,"rows":1,"exit_code":0,"seconds":1})",
                           R"({"part":"sizes","command":-1,"rows":1,"exit_code":0,"seconds":1})",
                           R"({"part":"sizes","command":0,"rows":9e300,"exit_code":0,"seconds":1})",
                           R"({"part":"sizes","command":0,"rows":9223372036854775807,"exit_code":0,"seconds":1})",
                           R"({"part":"sizes","command":0,"rows":1,"exit_code":"0","seconds":1})", R"({"part":5})"}) {
    write_file(path("log.jsonl"), std::string(line) + "\n");
    EXPECT_THAT(error_of([&] { folder_.log(); }), HasSubstr("log.jsonl' is damaged: line 1 is no entry of a log"))
        << line;
  }
  for (const std::string& text :
       {std::string(R"({"schema":1,"configuration":{},"parts":5})"), "{\"schema\":1,\"parts\":" + deep + "}",
        std::string(R"({"schema":"1","configuration":{}})"), std::string(R"({"schema":1,"configuration":[]})"),
        std::string(R"({"schema":1,"configuration":{},"parts":[{"part":"weather","title":"","commands":[]}]})"),
        std::string(R"({"schema":1,"configuration":{},"parts":[{"part":"sizes","title":"","commands":[5]}]})")}) {
    write_file(path("study.json"), text);
    EXPECT_THAT(error_of([&] { folder_.manifest().plan(); }), HasSubstr("study.json' is damaged"))
        << text.substr(0, 99);
  }
}

TEST_F(StudyFolderTest, has_one_process_at_a_time) {
  folder_.create(kConfiguration);
  {
    const Descriptor lock = folder_.lock();
    EXPECT_THAT(error_of([&] { folder_.lock(); }), HasSubstr("another process measures the study"));
  }
  EXPECT_TRUE(folder_.lock().is_open());
}

}  // namespace
}  // namespace ridgepoint
