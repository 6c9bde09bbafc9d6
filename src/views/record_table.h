// Records as a table for people: what all runs share in a caption, what varies in the first columns, then what was
// measured in units that fit. A run that failed says why in its row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ridgepoint/record.h"
#include "views/table/format.h"

namespace ridgepoint::cli {

// What all the records share (device, model, sizes, options), in lines of at most `width` columns.
std::string records_caption(std::span<const Record> records, std::size_t width = SIZE_MAX);
// At most `width` columns: the least telling measurements are left out (then named below). `columns`: the names of the
// measurements to show instead of the usual ones (record_columns.h), all of them; empty for the usual ones.
std::string records_as_text(std::span<const Record> records, std::size_t width = SIZE_MAX,
                            std::span<const std::string> columns = {});
std::string records_as_markdown(std::span<const Record> records, std::span<const std::string> columns = {});

// All records in one text, ready to be a file; a table in at most `width` columns, with the columns named (those that
// records_as_text() takes).
std::string render(Format format, std::span<const Record> records, std::size_t width = SIZE_MAX,
                   std::span<const std::string> columns = {});

}  // namespace ridgepoint::cli
