// ridgepoint published: figures of other people's runs, alone or beside records.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/options/sweep.h"
#include "core/text/nearest.h"
#include "core/text/throw_error.h"
#include "inspect/published/compare.h"
#include "inspect/published/published_rows.h"
#include "inspect/published/published_table.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint::cli {
namespace {

// The distinct values of all rows, in the order of the files.
template <typename Collect>
std::vector<std::string> values_of(const Collect& collect) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  for (const PublishedRow& row : published_rows()) {
    for (const std::string& value : collect(row)) {
      if (!value.empty() && seen.insert(value).second) values.push_back(value);
    }
  }
  return values;
}

std::vector<std::string> models() {
  return values_of([](const PublishedRow& row) {
    return std::vector{row.text("model").value_or(row.text("model_presumed").value_or(""))};
  });
}
std::vector<std::string> studies() {
  return values_of([](const PublishedRow& row) { return std::vector{row.study}; });
}
std::vector<std::string> quantities() {
  return values_of([](const PublishedRow& row) {
    std::vector<std::string> names;
    for (const PublishedFigure& figure : row.figures) names.push_back(figure.quantity);
    return names;
  });
}

std::vector<std::string_view> views_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

// The items of a list, each of which must be known. Empty for an option that is not given.
std::vector<std::string> checked_list(std::string_view flag, const std::string& text,
                                      const std::vector<std::string>& known) {
  if (text.empty()) return {};
  std::vector<std::string> items = parse_option(flag, text, split_list);
  for (const std::string& item : items) {
    if (std::ranges::find(known, item) != known.end()) continue;
    const std::vector<std::string_view> names = views_of(known);
    const std::string near = nearest(item, names);
    refuse(
        "{}: '{}' is unknown; {}", flag, item,
        near.empty() ? fmt::format("available: {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", near));
  }
  return items;
}

bool contains_or_empty(const std::vector<std::string>& items, const std::string& value) {
  return items.empty() || std::ranges::find(items, value) != items.end();
}

// "record 1: small, batch 4, context 256, fp32, step", "record 2: attention, d_model 64, batch 8, sequence 1024, fp32"
std::string describe(const Record& record, std::size_t number) {
  if (record.experiment == Experiment::attention) {
    return fmt::format("record {}: {}{}attention, d_model {}, batch {}, sequence {}, {}", number, record.model.name,
                       record.model.name.empty() ? "" : " ", record.model.d_model, record.batch, record.context,
                       name(record.dtype));
  }
  return fmt::format("record {}: {}, batch {}, context {}, {}, {}", number, record.model.name, record.batch,
                     record.context, name(record.dtype), name(record.mode));
}

class Published : public Command {
 public:
  std::string_view name() const override { return "published"; }
  std::string_view summary() const override { return "show published figures, alone or beside the records of a file"; }
  std::string_view examples() const override {
    return "ridgepoint published --model small\n"
           "ridgepoint published --kind attention --quantity forward_ms,backward_ms\n"
           "ridgepoint published --study a800_80gb --kind memory,claim\n"
           "ridgepoint published --beside small.json --format markdown";
  }
  std::string_view notes() const override {
    return "The figures come from five write-ups of one exercise, all in PyTorch. data/published of the source has "
           "them, and its README says what each write-up leaves open. device is the card, and whether the write-up "
           "states it. condition says which figures compare. --beside takes records of bench and attention. Each "
           "table then has the records with the same workload: the source's figure, the record's figure, their ratio, "
           "and whether they compare.";
  }
  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Published");
    group.add("--kind", kinds_, "NAMES", "step, attention, memory, profile, precision or claim [step]",
              {kPublishedKindNames.all().begin(), kPublishedKindNames.all().end()}, Takes::list);
    group.add("--model", models_, "NAMES", "only rows of these models [all]", views_of(models()), Takes::list);
    group.add("--study", studies_, "NAMES", "only rows of these write-ups [all]", views_of(studies()), Takes::list);
    group.add("--quantity", quantities_, "NAMES", "only these figures: mean_ms, peak_mib, ... [all]",
              views_of(quantities()), Takes::list);
    group.add("--beside", beside_, "FILE", "show the rows that can stand beside the records of this file");
    output_.add_to(app);
  }

  int run() override {
    require(kinds_.empty() || beside_.empty(), "--beside shows the kinds that its records are of; leave --kind out");
    const std::vector<std::string> wanted = checked_list("--quantity", quantities_, quantities());
    const std::vector<tables::PublishedLine> lines = beside_.empty() ? all_lines() : lines_beside();
    if (tables::published_page(lines, wanted, Format::table).tables.empty()) throw Error(nothing_found());
    write(output_, [&](Format format, std::size_t) { return tables::published_page(lines, wanted, format); });
    return kExitOk;
  }

 private:
  bool is_selected(const PublishedRow& row, const std::vector<std::string>& models,
                   const std::vector<std::string>& studies) const {
    const std::string model = row.text("model").value_or(row.text("model_presumed").value_or(""));
    return contains_or_empty(models, model) && contains_or_empty(studies, row.study);
  }

  std::vector<tables::PublishedLine> all_lines() const {
    const std::vector<std::string> model_names = checked_list("--model", models_, models());
    const std::vector<std::string> study_names = checked_list("--study", studies_, studies());
    std::vector<std::string> known;
    for (const std::string_view name : kPublishedKindNames.all()) known.emplace_back(name);
    const std::vector<std::string> kinds = checked_list("--kind", kinds_.empty() ? "step" : kinds_, known);
    std::vector<tables::PublishedLine> lines;
    for (const PublishedRow& row : published_rows()) {
      if (!contains_or_empty(kinds, std::string(ridgepoint::name(row.kind)))) continue;
      if (!is_selected(row, model_names, study_names)) continue;
      const std::string condition = condition_of(row);
      lines.push_back({.found = {.row = &row, .conditions = condition, .label = condition}});
    }
    return lines;
  }

  std::vector<tables::PublishedLine> lines_beside() {
    const std::vector<std::string> model_names = checked_list("--model", models_, models());
    const std::vector<std::string> study_names = checked_list("--study", studies_, studies());
    std::vector<tables::PublishedLine> lines;
    std::size_t number = 0;
    records_ = read_records(beside_);
    if (records_.empty())
      throw_error("'{}' has no records; write some with ridgepoint bench --output FILE.jsonl", beside_);
    for (const Record& record : records_) {
      const std::string description = describe(record, ++number);
      for (const Comparable& found : comparable_rows(record, published_rows())) {
        if (is_selected(*found.row, model_names, study_names)) lines.push_back({found, &record, description});
      }
    }
    return lines;
  }

  std::string nothing_found() const {
    if (beside_.empty()) {
      return "no published figure has all of that; leave out --model, --study or --quantity, or give another --kind";
    }
    return fmt::format(
        "no published figure is of a workload in '{}'; ridgepoint published --kind step,attention lists "
        "the workloads that have one",
        beside_);
  }

  std::string kinds_, models_, studies_, quantities_, beside_;
  std::vector<Record> records_;  // of --beside
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> make_published() { return std::make_unique<Published>(); }

}  // namespace ridgepoint::cli
