#include "inspect/compare/training/training_table.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/text/units.h"
#include "record/columns.h"

namespace ridgepoint::tables {
namespace {

using Values = std::vector<std::pair<const char*, Cell>>;

void add(Values& values, const char* key, const char* baseline_key, const FigurePair& figure) {
  values.emplace_back(key, optional_cell(figure.other));
  values.emplace_back(baseline_key, optional_cell(figure.baseline));
}

// The values of a row in CSV and JSON, by name.
Values file_values(const ComparedTraining& row, const TrainingComparison& comparison) {
  const auto finite = [](double value) { return std::isfinite(value) ? Cell(value) : Cell(); };
  const auto limit = [](const auto& interval, double TimeRatio::Interval::*which) {
    return interval ? Cell((*interval).*which) : Cell();
  };
  const auto time_limit = [&](double TimeRatio::Interval::*which) {
    return row.time ? limit(row.time->interval, which) : Cell();
  };
  Values values = {{"verdict", std::string(name(row.verdict))},
                   {"file", row.file},
                   {"baseline_file", comparison.baseline_file},
                   {"common_steps", row.common_steps},
                   {"first_step", row.first_step},
                   {"last_step", row.last_step},
                   {"has_same_sequences", row.has_same_sequences},
                   {"first_difference", optional_cell(row.first_difference)},
                   {"largest_difference", finite(row.largest_difference)},
                   {"last", row.last}};
  add(values, "loss", "baseline_loss", row.loss);
  const bool has_error = row.interval.has_value();
  values.insert(values.end(), {{"loss_difference", has_error ? Cell(row.difference) : Cell()},
                               {"loss_standard_error", has_error ? Cell(row.standard_error) : Cell()},
                               {"loss_difference_low", limit(row.interval, &TimeRatio::Interval::low)},
                               {"loss_difference_high", limit(row.interval, &TimeRatio::Interval::high)},
                               {"confidence", comparison.options.of_times.confidence},
                               {"validation_step", optional_cell(row.validation_step)}});
  add(values, "validation_loss", "baseline_validation_loss", row.validation_loss);
  add(values, "gradient_norm", "baseline_gradient_norm", row.gradient_norm);
  add(values, "tokens_per_second", "baseline_tokens_per_second", row.tokens_per_second);
  values.insert(values.end(), {{"time_verdict", row.time ? Cell(std::string(name(row.time_verdict))) : Cell()},
                               {"time_ratio", row.time ? Cell(row.time->ratio) : Cell()},
                               {"time_ratio_low", time_limit(&TimeRatio::Interval::low)},
                               {"time_ratio_high", time_limit(&TimeRatio::Interval::high)},
                               {"same_within", comparison.options.of_times.same_within}});
  add(values, "peak_allocated", "baseline_peak_allocated", row.peak_allocated_bytes);
  values.emplace_back("target_loss", row.target_loss);
  add(values, "steps_to_loss", "baseline_steps_to_loss", row.steps_to_loss);
  add(values, "seconds_to_loss", "baseline_seconds_to_loss", row.seconds_to_loss);
  return values;
}

Table file_rows(const TrainingComparison& comparison) {
  Table table;
  for (const ComparedTraining& row : comparison.rows) {
    Cells cells;
    for (auto& [key, cell] : file_values(row, comparison)) {
      if (table.rows.empty()) table.columns.push_back({key, key});
      cells.push_back(std::move(cell));
    }
    table.add(std::move(cells));
  }
  return table;
}

std::string percent(double share) { return fmt::format("{:+.2f}%", 100 * share); }

std::string words_of(const ComparedTraining& row) {
  switch (row.verdict) {
    case LossVerdict::identical: return "the same to the bit";
    case LossVerdict::rounding: return fmt::format("the same within rounding: {:.1e} at most", row.largest_difference);
    case LossVerdict::not_finite:
      return fmt::format("the loss of {} is not finite", row.loss.other ? "the baseline" : "this one");
    case LossVerdict::cannot_tell: return fmt::format("cannot tell from fewer than {} steps", kLeastSteps);
    case LossVerdict::indistinguishable:
    case LossVerdict::lower:
    case LossVerdict::higher: break;
  }
  return std::string(name(row.verdict));
}

// The table for people.
class PeopleTable {
 public:
  PeopleTable(const TrainingComparison& comparison, const ComparedTraining& row)
      : comparison_(comparison), options_(comparison.options.of_times), row_(row) {}

  Table build() {
    table_.caption = fmt::format("{} compared with {}: {} common steps, {} to {}", row_.file, comparison_.baseline_file,
                                 row_.common_steps, row_.first_step, row_.last_step);
    table_.columns = {left("figure"), right("baseline"), right("this one"), right("difference"), left("verdict")};
    add_losses();
    const auto number = [](const char* format) {
      return [format](double value) { return fmt::format(fmt::runtime(format), value); };
    };
    add("gradient norm", row_.gradient_norm, number("{:.3g}"));
    add("tokens/s", row_.tokens_per_second, format_count, words_of_time());
    add("peak memory", row_.peak_allocated_bytes, format_byte_count);
    if (row_.steps_to_loss.baseline || row_.steps_to_loss.other) {
      const std::string target = fmt::format("to loss {:.4f}", row_.target_loss);
      add("steps " + target, row_.steps_to_loss, number("{:.0f}"));
      add("seconds " + target, row_.seconds_to_loss, number("{:.1f}"));
    }
    if (!row_.has_same_sequences)
      table_.remark = "The steps have read other sequences, which makes the error of the difference larger.";
    return std::move(table_);
  }

 private:
  using Text = std::function<std::string(double)>;

  static std::string text_of(const std::optional<double>& value, const Text& text) {
    return value ? text(*value) : std::string(kNothing);
  }

  void add(const std::string& figure, const FigurePair& pair, const Text& text, const std::string& verdict = "") {
    if (!pair.baseline && !pair.other) return;
    const bool has_both = pair.baseline && pair.other && *pair.baseline != 0;
    table_.add({figure, text_of(pair.baseline, text), text_of(pair.other, text),
                has_both ? percent(*pair.other / *pair.baseline - 1) : std::string(kNothing), verdict});
  }

  // With the digits that show how large the error is.
  std::string signed_text(double value) const {
    constexpr double kFewDigits = 1e-4;
    return row_.standard_error < kFewDigits && row_.standard_error > 0 ? fmt::format("{:+.1e}", value)
                                                                       : fmt::format("{:+.4f}", value);
  }

  void add_losses() {
    const Text loss = [](double value) { return fmt::format("{:.4f}", value); };
    const std::string nothing(kNothing);
    std::string difference = nothing;
    if (row_.interval) {
      difference = fmt::format("{} ± {}", signed_text(row_.difference), signed_text(row_.standard_error).substr(1));
      if (*row_.loss.baseline != 0) difference += fmt::format(" ({})", percent(row_.difference / *row_.loss.baseline));
    }
    table_.add({fmt::format("loss, last {} steps", row_.last), text_of(row_.loss.baseline, loss),
                text_of(row_.loss.other, loss), difference, words_of(row_)});
    if (row_.interval && row_.standard_error > 0) {
      table_.add({fmt::format("{:g}% interval", 100 * options_.confidence), nothing, nothing,
                  fmt::format("{} to {}", signed_text(row_.interval->low), signed_text(row_.interval->high)),
                  std::string()});
    }
    if (row_.validation_step)
      add(fmt::format("validation loss, step {}", *row_.validation_step), row_.validation_loss, loss);
    if (!row_.first_difference) return;
    table_.add({std::string("first step that differs"), nothing, fmt::format("{}", *row_.first_difference), nothing,
                std::string()});
  }

  std::string words_of_time() const {
    if (!row_.time) return "";
    if (row_.time_verdict == Verdict::same) return fmt::format("same within {:g}%", 100 * options_.same_within);
    return row_.time_verdict == Verdict::cannot_tell ? "cannot tell" : std::string(name(row_.time_verdict));
  }

  const TrainingComparison& comparison_;
  const CompareOptions& options_;
  const ComparedTraining& row_;
  Table table_;
};

}  // namespace

Page training_page(const TrainingComparison& comparison, Format format) {
  Page page;
  if (!is_for_people(format)) {
    page.tables.push_back(file_rows(comparison));
    return page;
  }
  for (const ComparedTraining& row : comparison.rows) page.tables.push_back(PeopleTable(comparison, row).build());
  page.tables.back().note =
      "The difference of the losses is the mean over the same steps of both, ± its standard error. The loss is lower "
      "or "
      "higher if the whole interval says so, which holds for these runs and says nothing about other seeds.";
  return page;
}

}  // namespace ridgepoint::tables
