// Records as a page. Table and markdown: the caption has the settings that all runs share, the first columns have the
// settings that vary, and the other columns have the measurements; the row of a failed run has its error. CSV: one
// column for each field, under its JSON name with dots (model.d_model); the samples of a run share a cell, separated by
// semicolons. JSON: the records.
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

// Tables about the choice of shardings and sizes of buckets (--shard auto, bucket=auto).

// The reason of each choice, a line each, without repeats. Empty if no record has a choice.
std::string parallel_choice_notes(std::span<const Record> records);

// The candidates of each record; empty if no record had two.
std::optional<Table> parallel_choice_table(std::span<const Record> records);

// The times of the schedules of --fit-into, and how far they are from the bound; empty if no record has a schedule.
std::string schedule_notes(std::span<const Record> records);
// The choices, a row each; nullopt if no record has a schedule.
std::optional<Table> schedule_table(std::span<const Record> records);

// How tables show the verdict on the samples of a row (docs/timing.md).

// For each mark of the records, a line with its meaning and what to do. Empty if there is no mark.
std::string timing_notes(std::span<const Record> records);

// The settings that all records share: device, model, sizes, options.
std::string records_caption(std::span<const Record> records);

// The settings in the first columns: those that vary, those that `columns` names, and the mode, which says what the
// times mean.
std::vector<const Setting*> leading_settings(std::span<const Record> records,
                                             std::span<const std::string> columns = {});

// The settings of these that vary.
std::vector<const Setting*> varying_settings(std::span<const Record> records);

// The records' sentences, a line each, without repeats. Empty if there are none.
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

// `columns`: the names of the measures to show, at any width. If it is empty, the usual measures are shown, and a
// narrow terminal omits some. Tables have columns of speedups over the baseline, or without one over the first row's
// number type and compile level, if these vary.
Page records_page(std::span<const Record> records, Format format, std::span<const std::string> columns = {},
                  const std::optional<RecordBaseline>& baseline = std::nullopt);

}  // namespace ridgepoint::tables
