#include "tables/table/render.h"

#include <cmath>

#include "support/matchers.h"

namespace ridgepoint::tables {
namespace {

Table sample() {
  Table table;
  table.caption = "What was run\nand where";
  table.title = "Kernels";
  table.columns = {{"name", "name"}, {"time_ms", "ms", "{:.1f}"}, {"calls", "calls", "{}", Align::by_content, 1}};
  table.add({"gemm", 1.25, 3});
  table.add({"  exp", NAN, {}});
  table.add({"copy"}, "was not timed");
  table.remark = "Right below.";
  table.note = "Further below.";
  return table;
}

std::string rendered(Format format, const Table& table) { return render(format, Page{.tables = {table}}); }

TEST(Render, a_terminal_gets_text_to_the_left_and_numbers_to_the_right) {
  EXPECT_EQ(rendered(Format::table, sample()),
            "What was run\nand where\n\nKernels\n"
            "name    ms  calls\n"
            "gemm   1.2      3\n"
            "  exp  NaN      -\n"
            "copy   was not timed\n"
            "Right below.\n\nFurther below.\n");
}

TEST(Render, names_once_and_at_the_end_what_had_no_room) {
  EXPECT_THAT(render(Format::table, Page{.tables = {sample(), sample()}}, 16),
              EndsWith("Further below.\n\nOmitted for lack\nof width: calls.\nA wider terminal\nor --format csv\nshows "
                       "all\ncolumns.\n"));
}

TEST(Render, markdown_has_headings_paragraphs_and_no_blanks_to_lose) {
  EXPECT_EQ(rendered(Format::markdown, sample()),
            "What was run\n\nand where\n\n### Kernels\n\n"
            "| name | ms | calls | remark |\n|---|---:|---:|---|\n"
            "| gemm | 1.2 | 3 |  |\n| ..exp | NaN | - |  |\n| copy |  |  | was not timed |\n"
            "\nRight below.\n\nFurther below.\n");
}

TEST(Render, markdown_escapes_what_would_end_a_cell) {
  Table table;
  table.columns = {left("a|b")};
  table.add({"x|y"});
  EXPECT_EQ(rendered(Format::markdown, table), "| a\\|b |\n|---|\n| x\\|y |\n");
}

TEST(Render, files_have_all_digits_and_nothing_where_nothing_is_known) {
  Table table = sample();
  table.rows.pop_back();
  EXPECT_EQ(rendered(Format::csv, table), "name,time_ms,calls\ngemm,1.25,3\n  exp,,\n");
  EXPECT_EQ(rendered(Format::json, table),
            "[\n{\"name\":\"gemm\",\"time_ms\":1.25,\"calls\":3},\n"
            "{\"name\":\"  exp\",\"time_ms\":null,\"calls\":null}\n]\n");
  EXPECT_EQ(render_continued(Format::csv, {.tables = {table}}), "gemm,1.25,3\n  exp,,\n");
}

TEST(Render, json_has_the_documents_where_there_are_any) {
  const Page page{.tables = {}, .documents = {"{}", "[1]"}};
  EXPECT_EQ(render(Format::json, page), "[\n{},\n[1]\n]\n");
  EXPECT_EQ(render(Format::jsonl, page), "{}\n[1]\n");
  EXPECT_EQ(render(Format::json, Page()), "[\n]\n");
}

TEST(Render, of_text_that_is_no_text_shows_what_can_be_shown) {
  Table table;
  table.columns = {{"name", "name"}};
  table.add({"a\x1b[2J\xff"});
  EXPECT_THAT(rendered(Format::table, table), HasSubstr("a\uFFFD[2J\uFFFD\n"));
  EXPECT_THAT(rendered(Format::json, table), HasSubstr("\"a\\u001b[2J\uFFFD\""));
}

}  // namespace
}  // namespace ridgepoint::tables
