// What a memory snapshot says, as pages: tables and sentences for people, rows for CSV, documents for JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/text/json.h"
#include "inspect/snapshot/report.h"
#include "tables/table/table.h"

namespace ridgepoint::views {

// The reports of one file, one a device.
struct SnapshotFileView {
  std::string path;
  std::string format;  // "pickle, protocol 4"
  std::vector<SnapshotReport> devices;
};

// `top`: lines of the tables by frame, of leaks and of failures; 0 shows all.
Page snapshot_page(const SnapshotFileView& file, std::size_t top, Format format);

// The reports of the same devices of two files.
Page snapshot_difference_page(const SnapshotFileView& before, const SnapshotFileView& after, std::size_t top,
                              Format format);

}  // namespace ridgepoint::views
