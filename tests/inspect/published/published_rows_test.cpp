#include "inspect/published/published_rows.h"

#include <cmath>
#include <set>

#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

std::string place(const PublishedRow& row) { return std::string(name(row.kind)) + " line " + std::to_string(row.line); }

const PublishedFigure* find_figure(const PublishedRow& row, std::string_view quantity) {
  for (const PublishedFigure& figure : row.figures) {
    if (figure.quantity == quantity) return &figure;
  }
  return nullptr;
}

TEST(PublishedRows, are_as_many_as_the_readme_counts) {
  std::map<std::string_view, int> counts;
  for (const PublishedRow& row : published_rows()) ++counts[name(row.kind)];
  const std::map<std::string_view, int> expected = {{"step", 46 + 51}, {"attention", 157 + 40}, {"profile", 18},
                                                    {"precision", 16}, {"memory", 41},          {"claim", 16}};
  EXPECT_EQ(counts, expected);
}

TEST(PublishedRows, have_a_source_a_status_and_a_basis_for_their_card) {
  const std::set<std::string> studies = {"rtx_a4500_20gb",     "a100_80gb_pcie",      "unnamed_98gb",
                                         "a800_80gb",          "unnamed_card",        "torch_h200",
                                         "torch_library_h200", "torch_compiled_h200", "transformers_h200"};
  const std::set<std::string> bases = {"stated", "elsewhere_in_document", "not_stated"};
  for (const PublishedRow& row : published_rows()) {
    EXPECT_TRUE(studies.contains(row.study)) << place(row);
    EXPECT_THAT(row.table, Not(IsEmpty())) << place(row);
    const bool is_of_a_card = row.kind != PublishedKind::precision && row.kind != PublishedKind::claim;
    EXPECT_EQ(bases.contains(row.card_basis), is_of_a_card) << place(row);
    if (row.kind == PublishedKind::claim) {
      EXPECT_TRUE(row.text("claim").has_value() && !row.note.empty()) << place(row);
    }
  }
}

TEST(PublishedRows, name_no_card_that_the_source_does_not_name) {
  EXPECT_EQ(study_words("unnamed_card"), "a card that is not named");
  for (const PublishedRow& row : published_rows()) EXPECT_THAT(study_words(row.study), Not(HasSubstr("unnamed_")));
}

TEST(PublishedRows, have_the_settings_and_figures_of_their_kind) {
  for (const PublishedRow& row : published_rows()) {
    if (row.kind == PublishedKind::step) {
      EXPECT_TRUE(row.text("model") && row.text("mode") && row.text("compile")) << place(row);
      EXPECT_EQ(row.text("framework"), "pytorch") << place(row);
    }
    if (row.kind == PublishedKind::attention) {
      EXPECT_TRUE(row.size("d") && row.size("sequence") && row.text("implementation")) << place(row);
      EXPECT_TRUE(row.size("batch") || row.size("batch_presumed")) << place(row);
      EXPECT_TRUE(row.text("dtype") || row.text("dtype_presumed")) << place(row);
    }
    const bool is_timed = row.kind == PublishedKind::step || row.kind == PublishedKind::attention;
    if (is_timed && row.status == "ok") {
      EXPECT_THAT(row.figures, Not(IsEmpty())) << place(row);
    }
    if (row.status == "oom") {
      EXPECT_EQ(find_figure(row, "forward_ms"), nullptr) << place(row);
      EXPECT_EQ(find_figure(row, "mean_ms"), nullptr) << place(row);
    }
  }
}

TEST(PublishedRows, have_finite_figures_with_units) {
  const std::set<std::string> without_unit = {"calls",          "calls_low",     "calls_high",    "elements",
                                              "ratio",          "ratio_low",     "ratio_high",    "rise_to_fall_ratio",
                                              "result",         "length_factor", "memory_factor", "factor_as_printed",
                                              "sequence_above", "sequence_below"};
  for (const PublishedRow& row : published_rows()) {
    for (const PublishedFigure& figure : row.figures) {
      EXPECT_TRUE(std::isfinite(figure.value) && figure.value >= 0) << place(row) << " " << figure.quantity;
      EXPECT_EQ(std::stod(figure.printed), figure.value) << place(row) << " " << figure.quantity;
      const bool is_ratio = figure.quantity.find("speedup") != std::string::npos ||
                            figure.quantity.starts_with("ratio_to") || figure.quantity.starts_with("times_softmax");
      EXPECT_EQ(figure.unit.empty(), is_ratio || without_unit.contains(figure.quantity))
          << place(row) << " " << figure.quantity << " has the unit '" << figure.unit << "'";
    }
  }
}

TEST(PublishedRows, have_tokens_per_second_that_follow_from_the_mean) {
  int checked = 0;
  for (const PublishedRow& row : published_rows()) {
    const PublishedFigure* rate = find_figure(row, "tokens_per_second");
    const PublishedFigure* mean = find_figure(row, "mean_ms");
    if (rate == nullptr || mean == nullptr) continue;
    const double tokens = static_cast<double>(row.size("batch").value() * row.size("context").value());
    EXPECT_NEAR(rate->value, 1000 * tokens / mean->value, 0.01 * rate->value) << place(row);
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

TEST(PublishedRows, keep_the_digits_of_the_source) {
  const auto rows = parse_published(PublishedKind::attention,
                                    R"({"study":"s","table":"t","backward_ms":2.60,"forward_ms":12,"batch":8})"
                                    "\n");
  ASSERT_THAT(rows, SizeIs(1));
  ASSERT_THAT(rows[0].figures, SizeIs(2));
  EXPECT_EQ(rows[0].figures[0].printed, "2.60");
  EXPECT_EQ(rows[0].figures[0].unit, "ms");
  EXPECT_EQ(rows[0].figures[1].printed, "12");
  EXPECT_EQ(rows[0].size("batch"), 8);
  EXPECT_EQ(rows[0].size("heads"), std::nullopt);
}

TEST(PublishedRows, are_refused_with_their_line_and_the_reason) {
  const auto expect_refused = [](const std::string& row, const std::string& why) {
    const std::string text = R"({"study":"s","table":"t"})"
                             "\n" +
                             row + "\n";
    EXPECT_THAT(error_of([&] { parse_published(PublishedKind::memory, text); }),
                AllOf(HasSubstr("published figures, memory, line 2: the row "), HasSubstr(why)));
  };
  expect_refused("", "is no JSON object");
  expect_refused("[1]", "is no JSON object");
  expect_refused(R"({"study":"s",)", "is no JSON: ");
  expect_refused(R"({"table":"t"})", "has no study");
  expect_refused(R"({"study":"s"})", "has neither a table nor a topic");
  expect_refused(R"({"study":"s","table":"t","status":"fine"})", "has status 'fine'");
  expect_refused(R"({"study":"s","table":"t","size_mib":{"a":1}})", "field 'size_mib' is an object");
  expect_refused(R"({"study":"s","table":"t","d":1,"d":2})", "field 'd' is there twice");
  expect_refused(R"({"study":"s","table":"t","size_mib":1e999})", "");
  expect_refused(R"({"study":"s","table":"t","card_basis":"stated"})", "contradicts its card");
  expect_refused(R"({"study":"s","table":"t","min_us":30,"median_ms":0.02})", "its min is above its median");
}

}  // namespace
}  // namespace ridgepoint
