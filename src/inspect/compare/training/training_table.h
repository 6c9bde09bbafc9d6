// A comparison of trainings as a page. Table and markdown: a table for each training, a figure a row, with the
// baseline's beside it. CSV and JSON: a row for each training.
#pragma once

#include "inspect/compare/training/compare_trainings.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

Page training_page(const TrainingComparison& comparison, Format format);

}  // namespace ridgepoint::tables
