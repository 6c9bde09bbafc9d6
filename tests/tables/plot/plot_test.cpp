
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "record/record_plot.h"
#include "support/matchers.h"
#include "support/records/sample_records.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

std::string text_of(const Table& table) { return render(Format::table, {.tables = {table}}); }

Plot plot_of(std::vector<PlotSeries> series) {
  return {"Time", "context", "ms", [](double value) { return fmt::format("{:.1f}", value); }, std::move(series)};
}

TEST(Plot, puts_points_on_logarithmic_axes) {
  const Table table = plot_table(plot_of({{"one", {{1, 1}, {10, 10}, {100, 100}}, {}}}), 12 + 51);
  ASSERT_THAT(table.rows, SizeIs(16));
  const auto line = [&](std::size_t row) { return std::get<std::string>(table.rows[13 - row].cells[1]); };
  EXPECT_EQ(line(0)[1], 'a');
  EXPECT_EQ(line(13)[51], 'a');
  EXPECT_TRUE(line(6)[26] == 'a' || line(7)[26] == 'a') << text_of(table);
  EXPECT_EQ(std::get<std::string>(table.rows.front().cells[0]), "100.0");
  EXPECT_EQ(std::get<std::string>(table.rows[13].cells[0]), "1.0");
  EXPECT_THAT(text_of(table), HasSubstr("100\n"));
}

TEST(Plot, tells_series_apart_and_marks_runs_out_of_memory) {
  const std::string text =
      text_of(plot_table(plot_of({{"bf16", {{1, 1}, {2, 2}}, {4}}, {"fp32", {{1, 1}, {2, 4}, {4, 8}}, {}}}), 80));
  EXPECT_THAT(text, HasSubstr("a bf16   b fp32   ! out of memory"));
  EXPECT_THAT(text, HasSubstr("|*"));  // both begin at the same point
}

TEST(Plot, of_a_single_value_is_a_line) {
  EXPECT_THAT(text_of(plot_table(plot_of({{"one", {{1, 5}, {2, 5}, {4, 5}}, {}}}), 40)), HasSubstr("a...."));
}

TEST(Plot, has_axes_for_any_values) {
  const double infinity = std::numeric_limits<double>::infinity(), unknown = std::nan("");
  for (const double value : {0.0, -1.0, infinity, -infinity, unknown, 1e308, 5e-324}) {
    plot_table(plot_of({{"one", {{1, 1}, {2, value}}, {}}, {"two", {{value, 3}}, {value}}}), 80);
    plot_table(plot_of({{"one", {{value, value}}, {value}}}), 80);
  }
}

TEST(RecordPlots, have_time_and_memory_over_the_size_that_varies_most) {
  std::vector<Record> records;
  for (const std::int64_t context : {128, 256, 512}) {
    for (const std::int64_t batch : {1, 2}) {
      Record record = sample_record();
      record.context = context;
      record.batch = batch;
      records.push_back(std::move(record));
    }
  }
  records.back().status = RunStatus::oom;
  const std::vector<Table> tables = record_plots(records, 80);
  ASSERT_THAT(tables, SizeIs(2));
  EXPECT_EQ(tables[0].title, "Median time");
  EXPECT_EQ(tables[1].title, "Peak memory");
  EXPECT_THAT(text_of(tables[0]), HasSubstr("a batch 1   b batch 2   ! out of memory"));
  EXPECT_THAT(text_of(tables[0]), HasSubstr("context"));
}

TEST(RecordPlots, of_attention_have_forward_and_backward) {
  std::vector<Record> records;
  for (const std::int64_t sequence : {256, 512, 1024})
    records.push_back(attention_record(AttentionVariant::flash, sequence));
  EXPECT_THAT(record_plots(records, 80), SizeIs(3));
}

TEST(RecordPlots, are_empty_where_nothing_varies_enough) {
  EXPECT_THAT(record_plots({}, 80), IsEmpty());
  EXPECT_THAT(record_plots(std::vector<Record>{sample_record(), sample_record()}, 80), IsEmpty());
}

}  // namespace
}  // namespace ridgepoint::tables
