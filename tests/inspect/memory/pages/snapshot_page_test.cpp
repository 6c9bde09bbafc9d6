#include "inspect/memory/pages/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/matchers.h"

namespace ridgepoint::tables {
namespace {

MemoryReport report_with_phases(const std::vector<std::string>& names) {
  MemoryReport report;
  report.contents.categories.push_back({"unknown", "", 1, 1});
  for (const std::string& name : names) report.phases.emplace_back().name = name;
  return report;
}

const Table& phases_of(const Page& page) { return *std::ranges::find(page.tables, "Phases", &Table::title); }

TEST(SnapshotPage, sums_the_phases_of_one_name_in_the_order_of_their_begins) {
  const Page page = snapshot_page({"a", "JSON", {report_with_phases({"b", "a", "b"})}}, 15, Format::table);
  const std::vector<Row>& rows = phases_of(page).rows;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].cells[0], Cell("b"));
  EXPECT_EQ(rows[0].cells[1], Cell(std::int64_t{2}));
  EXPECT_EQ(rows[1].cells[0], Cell("a"));
}

// A search through all names for each phase compares 10^11 names.
TEST(SnapshotPage, has_a_row_for_each_of_very_many_names) {
  std::vector<std::string> names(500'000);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = fmt::format("step {}", i);
  const Page page = snapshot_page({"a", "JSON", {report_with_phases(names)}}, 15, Format::table);
  EXPECT_EQ(phases_of(page).rows.size(), names.size());
}

}  // namespace
}  // namespace ridgepoint::tables
