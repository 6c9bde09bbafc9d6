// Records as a page. Table and markdown: the caption has the settings that all runs share, the first columns those that
// vary, the others the measurements; the row of a failed run has its error. CSV: one column for each field, under its
// JSON name with dots (model.d_model); the samples of a run share a cell, separated by semicolons. JSON: the records.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ridgepoint/record.h"
#include "views/record_columns.h"
#include "views/table/format.h"
#include "views/table/table.h"

namespace ridgepoint::views {

// The settings that all records share: device, model, sizes, options.
std::string records_caption(std::span<const Record> records);

// The settings in the first columns: those that vary, and the mode, which says what the times mean.
std::vector<const RecordSetting*> leading_settings(std::span<const Record> records);

// `columns`: the measurements to show (record_columns.h), all of them at any width. If it is empty, the usual ones are
// shown, and a narrow terminal omits some.
Page records_page(std::span<const Record> records, Format format, std::span<const std::string> columns = {});

}  // namespace ridgepoint::views
