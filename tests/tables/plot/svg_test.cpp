
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/matchers.h"
#include "tables/plot/svg_canvas.h"
#include "tables/plot/svg_chart.h"

namespace ridgepoint::tables {
namespace {

using ::testing::Ge;
using ::testing::Le;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

// Every element that is opened is closed: what browsers ask of XML.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    if (tag.ends_with('/')) continue;
    if (tag.starts_with('/')) {
      ASSERT_THAT(open, Not(IsEmpty()));
      EXPECT_EQ(tag.substr(1), open.back());
      open.pop_back();
    } else {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  EXPECT_THAT(open, IsEmpty());
}

SvgChart chart_of(std::vector<SvgSeries> series) {
  return {.title = "Time", .subtitle = "", .x_title = "sequence", .y_title = "ms", .series = std::move(series)};
}

TEST(SvgAxis, has_few_round_ticks_within_its_ends) {
  for (const std::vector<double>& values :
       {std::vector<double>{1, 900}, {0.0003, 5e7}, {40, 60}, {7, 7}, {1e-300, 1e308}}) {
    const SvgAxis axis = SvgAxis::logarithmic(values, SvgUnit::milliseconds);
    EXPECT_THAT(axis.ticks(), SizeIs(AllOf(Ge(2U), Le(9U))));
    for (const double value : values) EXPECT_THAT(axis.share(value), AllOf(Ge(0.0), Le(1.0)));
  }
  EXPECT_THAT(SvgAxis::logarithmic({1, 90}, SvgUnit::milliseconds).ticks(), ElementsAre(1, 2, 5, 10, 20, 50, 100));
}

TEST(SvgAxis, exists_for_any_values) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double all[] = {0, -0.0, 1, -1, 1e17, 1.7e308, -1.7e308, 5e-324, infinity, -infinity, kUnknown};
  const auto check = [&](SvgAxis axis) {
    EXPECT_THAT(axis.ticks(), SizeIs(Le(101U)));
    for (const double tick : axis.ticks()) EXPECT_TRUE(std::isfinite(tick));
    for (const double value : all) EXPECT_THAT(axis.share(value), AllOf(Ge(0.0), Le(1.0)));
    axis.use_ticks({all, all + 8});
    for (const double tick : axis.ticks()) EXPECT_TRUE(std::isfinite(tick));
  };
  for (const SvgUnit unit : {SvgUnit::milliseconds, SvgUnit::bytes}) {
    check(SvgAxis::logarithmic({}, unit));
    check(SvgAxis::linear({}, unit, false));
    for (const double a : all) {
      for (const double b : all) {
        check(SvgAxis::logarithmic({a, b}, unit));
        for (const bool from_zero : {false, true}) check(SvgAxis::linear({a, b}, unit, from_zero));
      }
    }
  }
}

TEST(SvgNumber, is_defined_for_every_number) {
  EXPECT_EQ(svg_number(kUnknown, SvgUnit::bytes), "-");
  EXPECT_EQ(svg_number(std::numeric_limits<double>::infinity(), SvgUnit::milliseconds), "-");
  EXPECT_EQ(svg_number(1e308, SvgUnit::bytes), "8.00 EiB");
}

TEST(SvgAxis, of_bytes_has_powers_of_two) {
  const SvgAxis axis = SvgAxis::logarithmic({3e6, 4e9}, SvgUnit::bytes);
  for (const double tick : axis.ticks()) EXPECT_EQ(std::exp2(std::round(std::log2(tick))), tick);
}

TEST(SvgAxis, begins_at_zero_only_where_told) {
  EXPECT_EQ(SvgAxis::linear({90, 110}, SvgUnit::number, true).ticks().front(), 0);
  EXPECT_GT(SvgAxis::linear({90, 110}, SvgUnit::number, false).ticks().front(), 0);
}

TEST(SvgChart, is_well_formed_whatever_its_texts_are) {
  SvgChart chart = chart_of({{.name = "<script>\"&'</title>", .points = {{256, 1}, {512, 4}}}});
  chart.title = "a < b & c";
  const std::string svg = svg_chart(chart);
  expect_well_formed(svg);
  EXPECT_THAT(svg, AllOf(StartsWith("<svg "), HasSubstr("<title>a &lt; b &amp; c</title>"), Not(HasSubstr("<script"))));
}

TEST(SvgChart, has_colours_for_light_and_dark_pages) {
  EXPECT_THAT(svg_chart(chart_of({{.name = "one", .points = {{256, 1}, {512, 4}}}})),
              AllOf(HasSubstr(".page{fill:#ffffff}"), HasSubstr("prefers-color-scheme:dark"), HasSubstr("#14171b")));
}

TEST(SvgChart, needs_two_points) {
  EXPECT_EQ(svg_chart(chart_of({})), "");
  EXPECT_EQ(svg_chart(chart_of({{.name = "one", .points = {{256, 1}}, .out_of_memory = {{512, kUnknown}}}})), "");
}

TEST(SvgChart, marks_what_ran_out_of_memory_above_the_plot_or_where_it_was_planned) {
  SvgSeries series{.name = "naive", .points = {{256, 1}, {512, 4}}, .out_of_memory = {{1024, kUnknown}}};
  EXPECT_THAT(svg_chart(chart_of({series})),
              AllOf(HasSubstr("× above the plot: out of memory"), HasSubstr("naive: out of memory at 1024</title>")));
  series.out_of_memory = {{1024, 16}};
  EXPECT_THAT(svg_chart(chart_of({series})),
              AllOf(HasSubstr("out of memory, as planned"), HasSubstr("out of memory at 1024, 16 planned</title>"),
                    Not(HasSubstr("above the plot"))));
}

TEST(SvgChart, says_in_the_legend_which_curve_hides_another) {
  const SvgSeries one{.name = "softmax", .points = {{256, 1}, {512, 4}}};
  const SvgSeries same{.name = "weights", .points = {{256, 1}, {512, 4.01}}};
  const SvgSeries other{.name = "flash", .points = {{256, 1}, {512, 2}}};
  EXPECT_THAT(svg_chart(chart_of({one, same, other})), AllOf(HasSubstr(">softmax (as weights)</text>"),
                                                             HasSubstr(">weights</text>"), HasSubstr(">flash</text>")));
}

TEST(SvgChart, draws_a_curve_so_wide_that_it_is_seen_around_those_on_it) {
  SvgSeries series{.name = "naive", .points = {{256, 1}, {512, 4}}};
  SvgChart chart = chart_of({series, series, series});
  chart.series[1].name = "composite";
  chart.series[2].name = "weights";
  EXPECT_THAT(svg_chart(chart),
              AllOf(HasSubstr(">naive (as weights)</text>"), HasSubstr(">composite (as weights)</text>"),
                    HasSubstr("stroke-width=\"8\""), HasSubstr("stroke-width=\"5\""), HasSubstr("r=\"8.5\"")));
}

TEST(SvgChart, draws_published_figures_hollow_and_dashed) {
  const SvgSeries own{.name = "this study", .points = {{256, 1}, {512, 4}}};
  SvgSeries published{.name = "a paper", .points = {{256, 2}, {512, 8}}, .is_dashed = true};
  EXPECT_THAT(svg_chart(chart_of({own})), Not(HasSubstr("stroke-dasharray")));
  const std::string svg = svg_chart(chart_of({own, published}));
  EXPECT_EQ(count(svg, "stroke-dasharray"), 1U);
  EXPECT_EQ(count(svg, "fill=\"none\" pointer-events"), 3U);  // two points and the legend
}

TEST(SvgRows, have_the_figures_beside_the_plot_and_say_what_is_missing) {
  SvgRows rows{.title = "Sizes", .subtitle = "", .x_title = "ms", .series = {"fp32", "bf16"}, .rows = {}};
  EXPECT_EQ(svg_rows(rows), "");
  rows.rows = {{.label = "small", .marks = {{.series = 0, .value = 12.5}, {.series = 1, .value = 4}}},
               {.label = "large", .marks = {{.series = 0, .value = kUnknown, .source = "oom"}}},
               {.label = "other", .remark = "not run"}};
  const std::string svg = svg_rows(rows);
  expect_well_formed(svg);
  EXPECT_THAT(svg, AllOf(HasSubstr(">12.5</text>"), HasSubstr("<title>small, bf16: 4</title>"),
                         HasSubstr(">oom</text>"), HasSubstr(">not run</text>")));
}

TEST(SvgRows, have_columns_as_wide_as_their_headings) {
  const SvgRows rows{.title = "Models",
                     .subtitle = "",
                     .x_title = "ms",
                     .series = {"compile off", "compile full"},
                     .rows = {{.label = "small", .marks = {{.series = 0, .value = 4}, {.series = 1, .value = 3}}}}};
  const std::string svg = svg_rows(rows);
  const auto number_before = [&](const std::string& what, const std::string& attribute) {
    const std::size_t at = svg.find(what);
    return std::stod(svg.substr(svg.rfind(attribute + "=\"", at) + attribute.size() + 2));
  };
  const double end_of_first = number_before(">compile off</text>", "x");
  const std::size_t square = svg.find("<polygon points=\"");
  EXPECT_GT(std::stod(svg.substr(square + 17)), end_of_first);
}

TEST(SvgRows, have_no_mark_for_a_value_that_the_axis_lacks) {
  SvgRows rows{.title = "Sizes", .subtitle = "", .x_title = "ms", .series = {"fp32"}, .rows = {}};
  rows.rows = {{.label = "small", .marks = {{.value = 0, .source = "ok"}}}};
  EXPECT_EQ(svg_rows(rows), "");
  rows.rows.push_back({.label = "large", .marks = {{.value = 4, .low = 0, .high = kUnknown}}});
  EXPECT_THAT(svg_rows(rows), AllOf(HasSubstr(">ok</text>"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST(SvgRows, keep_published_figures_out_of_the_columns) {
  const SvgRows rows{.title = "Sizes",
                     .subtitle = "",
                     .x_title = "ms",
                     .series = {"fp32"},
                     .rows = {{.label = "small", .marks = {{.value = 12.5}, {.value = 34.57, .source = "a paper"}}}}};
  EXPECT_THAT(svg_rows(rows),
              AllOf(HasSubstr("<title>small, fp32: 34.6, a paper</title>"), Not(HasSubstr(">34.6</text>"))));
}

TEST(SvgBars, have_the_shares_and_the_sum) {
  SvgBars bars{.title = "Phases", .subtitle = "", .series = {"forward", "loss", "backward"}, .bars = {}};
  EXPECT_EQ(svg_bars(bars), "");
  bars.bars = {{"small", {10, 0, 30}}};
  const std::string svg = svg_bars(bars);
  expect_well_formed(svg);
  EXPECT_THAT(svg, AllOf(HasSubstr("small, forward: 10, 25 %"), HasSubstr("small, backward: 30, 75 %"),
                         HasSubstr(">40</text>"), Not(HasSubstr("loss"))));
}

TEST(SvgBars, are_as_long_as_their_sums_on_an_axis_with_a_name) {
  const SvgBars bars{.title = "Ways",
                     .subtitle = "",
                     .x_title = "ms",
                     .series = {"computed", "exposed"},
                     .bars = {{"one by one", {30, 30}}, {"as one", {30, 0}}}};
  const std::string svg = svg_bars(bars);
  expect_well_formed(svg);
  const auto width_of = [&](const std::string& tip) {
    const std::size_t at = svg.rfind("width=\"", svg.find(tip));
    return std::stod(svg.substr(at + 7));
  };
  EXPECT_NEAR(width_of("one by one, computed"), width_of("as one, computed"), 0.1);
  EXPECT_THAT(svg, HasSubstr(">ms (linear)</text>"));
}

}  // namespace
}  // namespace ridgepoint::tables
