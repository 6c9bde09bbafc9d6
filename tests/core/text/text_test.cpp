#include "core/text/text.h"

#include "core/text/json.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

TEST(Printable, has_nothing_that_a_terminal_obeys) {
  EXPECT_EQ(printable("\x1b[31m\x07\x7f"), "\uFFFD[31m\uFFFD\uFFFD");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\uFFFD"
            "31m");  // CSI in one character
  for (const char* mark : {"\u061C", "\u200E", "\u200F", "\u202A", "\u202E", "\u2066", "\u2069"})
    EXPECT_EQ(printable(mark), "\uFFFD");
  EXPECT_EQ(printable("\u00A0\u00E9\u2065\u206A\u2029 \U0001F600"), "\u00A0\u00E9\u2065\u206A\u2029 \U0001F600");
  EXPECT_EQ(printable("a\nb\tc\xff"),
            "a\uFFFD"
            "b\uFFFD"
            "c\uFFFD");
  EXPECT_EQ(printable_lines("a\nb\tc\r\x1b"), "a\nb\tc\uFFFD\uFFFD");
}

TEST(CsvField, is_no_formula_of_a_spreadsheet) {
  EXPECT_EQ(csv_field("=cmd|\"/c calc\"!A1"), "\"'=cmd|\"\"/c calc\"\"!A1\"");
  for (const std::string text : {"+1+1", "-2+3", "@sum", "\tx"}) EXPECT_EQ(csv_field(text), "'" + text);
  for (const std::string text : {"-", "-5", "1e-3", "a=b"}) EXPECT_EQ(csv_field(text), text);
  EXPECT_EQ(csv_field("\x1b[0m"), "\uFFFD[0m");
}

TEST(MarkdownText, shows_tags) {
  EXPECT_EQ(markdown_text("<script>a < b</script><!--"), "\\<script>a < b\\</script>\\<!--");
  EXPECT_EQ(markdown_cell("<b>|"), "\\<b>\\|");
}

TEST(DumpJson, writes_what_a_terminal_obeys_as_numbers) {
  const Json json = {{"a", "\x7f\u009B\u202E\u00E9\x1b"}};
  EXPECT_EQ(dump_json(json), "{\"a\":\"\\u007f\\u009b\\u202e\u00E9\\u001b\"}");
  EXPECT_EQ(parse_json(dump_json(json)), json);
}

}  // namespace
}  // namespace ridgepoint
