// Reads what nsys writes of its reports.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "interchange/trace/trace.h"

namespace ridgepoint {

inline constexpr std::string_view kSqliteBegin = "SQLite format 3";

// What `nsys export --type sqlite` writes, through the system's library libsqlite3, which is opened at run time.
// Throws Error for a database without tables of nsys, and where the library is missing. `on_progress` is called with
// the share that is read, and may throw to stop.
Trace read_nsys_export(const std::filesystem::path& path, const std::function<void(double share)>& on_progress);

// The sums by kernel that `nsys stats --report cuda_gpu_kern_sum` prints, as text or as CSV: whether the beginning of a
// file has the headings of this report.
bool begins_nsys_stats(std::string_view begin);
// The rows of all such tables in the text; lines that are no rows are passed over.
Trace read_nsys_stats(std::string_view text);

}  // namespace ridgepoint
