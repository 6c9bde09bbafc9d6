#include "cli/options/output.h"

#include <filesystem>
#include <thread>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "core/warning.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint::cli {
namespace {

TEST(OutputFormat, follows_the_ending_unless_told) {
  EXPECT_EQ((OutputOptions{"", "a/b.json"}).resolved_format(), Format::json);
  EXPECT_EQ((OutputOptions{"", "b.md"}).resolved_format(), Format::markdown);
  EXPECT_EQ((OutputOptions{"", "b.jsonl"}).resolved_format(), Format::jsonl);
  EXPECT_EQ((OutputOptions{"", "b.txt"}).resolved_format(), Format::table);
  EXPECT_EQ((OutputOptions{"", ""}).resolved_format(), Format::table);
  EXPECT_EQ((OutputOptions{"csv", "b.json"}).resolved_format(), Format::csv);
}

TEST(OutputFormat, is_no_picture) {
  for (const char* path : {"a.svg", "b.png", "c.html"}) {
    OutputOptions options;
    options.path = path;
    EXPECT_THAT(error_of([&] { options.resolved_format(); }), HasSubstr("--output: no table is written as")) << path;
  }
  EXPECT_EQ((OutputOptions{"table", "a.svg"}).resolved_format(), Format::table);
}

TEST(PageWriter, says_that_another_program_writes_its_file) {
  const TemporaryFolder folder;
  const std::string path = folder / "rows.csv";
  std::vector<std::string> heard;
  set_warning_handler([&](std::string_view message) { heard.emplace_back(message); });
  PageWriter writer({"", path}, [](Format, std::size_t) {
    tables::Table table;
    table.columns = {{"a", "a"}};
    table.add({tables::Cell(1.0)});
    return tables::Page{.tables = {table}};
  });
  const auto add = [&] {  // when a version is due again
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    writer.item_added();
  };
  add();
  add();
  EXPECT_THAT(heard, IsEmpty());
  write_file(path, "b\n2\n");
  add();
  add();
  writer.finish();
  set_warning_handler({});
  EXPECT_THAT(heard, ElementsAre(HasSubstr("another program wrote '" + path + "' too")));
  EXPECT_EQ(read_file(path, 100), "a\n1\n");
}

// Rewriting the file takes some 10 ms for the test's pages, so thousands of versions would take a minute.
TEST(PageWriter, writes_a_file_as_often_as_a_tenth_of_the_time_allows_and_at_its_end) {
  const TemporaryFolder folder;
  const std::string path = folder / "rows.csv";
  int pages = 0, items = 0;
  const auto make_page = [&](Format, std::size_t) {
    ++pages;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    tables::Table table;
    table.columns = {{"a", "a"}};
    table.add({tables::Cell(static_cast<double>(items))});
    return tables::Page{.tables = {table}};
  };
  {
    PageWriter writer({"", path}, make_page);
    for (items = 1; items <= 2000; ++items) writer.item_added();
    items = 2000;
    EXPECT_LT(pages, 20);
  }  // as where an exception ends the sweep
  EXPECT_EQ(read_file(path, 100), "a\n2000\n");
}

}  // namespace
}  // namespace ridgepoint::cli
