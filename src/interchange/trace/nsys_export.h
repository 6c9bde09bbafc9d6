// Reads what `nsys export --type sqlite` writes, through the system's library libsqlite3, which is opened at run time.
#pragma once

#include <filesystem>
#include <functional>

#include "interchange/trace/trace.h"

namespace ridgepoint {

inline constexpr std::string_view kSqliteBegin = "SQLite format 3";

// Throws Error for a database without tables of nsys, and where the library is missing. `on_progress` is called with
// the share that is read, and may throw to stop.
Trace read_nsys_export(const std::filesystem::path& path, const std::function<void(double share)>& on_progress);

}  // namespace ridgepoint
