// Records as a page. For people: what all runs share in a caption, what varies in the first columns, then what was
// measured in units that fit; a run that failed says why in its row. In CSV one column a field under its JSON name with
// dots (model.d_model), samples in one cell with semicolons between; in JSON the records.
#pragma once

#include <span>
#include <string>

#include "ridgepoint/record.h"
#include "views/table/format.h"
#include "views/table/table.h"

namespace ridgepoint::views {

// What all the records share: device, model, sizes, options.
std::string records_caption(std::span<const Record> records);

// `columns`: the names of the measurements to show instead of the usual ones (record_columns.h), all of them; empty for
// the usual ones, of which a narrow terminal leaves the least telling out.
Page records_page(std::span<const Record> records, Format format, std::span<const std::string> columns = {});

}  // namespace ridgepoint::views
