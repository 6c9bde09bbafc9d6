// Records as a page. Table and markdown: the caption has the settings that all runs share, the first columns those that
// vary, the others the measurements; the row of a failed run has its error. CSV: one column for each field, under its
// JSON name with dots (model.d_model); the samples of a run share a cell, separated by semicolons. JSON: the records.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/columns.h"
#include "ridgepoint/record/record.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

// What tables say of shardings and sizes of buckets that were chosen (--shard auto, bucket=auto).

// Why: a line for each choice, each once. Empty where no record has one.
std::string parallel_choice_notes(std::span<const Record> records);

// What each record chose from; empty where none had a choice of two.
std::optional<Table> parallel_choice_table(std::span<const Record> records);

// What the schedules of --fit-into take, and how far that is from the bound; empty where no record has one.
std::string schedule_notes(std::span<const Record> records);
// What was chosen, a row each; nullopt where no record has a schedule.
std::optional<Table> schedule_table(std::span<const Record> records);

// How tables show the verdict on the samples of a row (docs/timing.md).

// A line for each mark that the records have: what it means and what to do. Empty if there is none.
std::string timing_notes(std::span<const Record> records);

// The settings that all records share: device, model, sizes, options.
std::string records_caption(std::span<const Record> records);

// The settings in the first columns: those that vary, those that `columns` names, and the mode, which says what the
// times mean.
std::vector<const Setting*> leading_settings(std::span<const Record> records,
                                             std::span<const std::string> columns = {});

// Those of them that vary: what tells the records apart.
std::vector<const Setting*> varying_settings(std::span<const Record> records);

// The sentences that records have, a line each, each once. Empty where no record has one.
std::string each_once(std::span<const Record> records, std::optional<std::string> (*sentence)(const Record&));

// The column of a setting: its heading, and numbers to the right.
Column setting_column(const Setting& setting);

// A value of a swept option with which rows of other values are compared.
struct RecordBaseline {
  std::string setting;  // its heading: compile, batch
  std::string value;    // its cell: off, 4
};
// Reads "compile=off". Throws Error (usage) for other text, for an option that does not vary over the records, and for
// a value that none of them has.
RecordBaseline parse_baseline(std::string_view text, std::span<const Record> records);

// `columns`: the measures to show, by their names, all of them at any width. If it is empty, the usual ones are
// shown, and a narrow terminal omits some. Tables have columns of speedups over the baseline; without one, over the
// first row's number type and compile level where these vary.
Page records_page(std::span<const Record> records, Format format, std::span<const std::string> columns = {},
                  const std::optional<RecordBaseline>& baseline = std::nullopt);

}  // namespace ridgepoint::tables
