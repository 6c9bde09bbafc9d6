// What tables say of shardings and sizes of buckets that were chosen (--shard auto, bucket=auto).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ridgepoint/record.h"
#include "tables/table/table.h"

namespace ridgepoint::views {

// Why: a line for each choice, each once. Empty where no record has one.
std::string parallel_choice_notes(std::span<const Record> records);

// What each record chose from; empty where none had a choice of two.
std::optional<Table> parallel_choice_table(std::span<const Record> records);

}  // namespace ridgepoint::views
