// Records as a table for people: what all runs share in a caption, what varies in the first columns, then what was
// measured in units that fit. A run that failed says why in its row.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ridgepoint/record.h"

namespace ridgepoint::cli {

inline constexpr std::size_t kProseWidth = 100;  // of captions and notes, however wide the terminal

// What all the records share (device, model, sizes, options), in lines of at most `width` columns.
std::string records_caption(std::span<const Record> records, std::size_t width = SIZE_MAX);
// At most `width` columns where that can be had by leaving out the least telling measurements (then named below).
std::string records_as_text(std::span<const Record> records, std::size_t width = SIZE_MAX);
std::string records_as_markdown(std::span<const Record> records);

}  // namespace ridgepoint::cli
