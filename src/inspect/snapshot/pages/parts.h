// The parts of a page of a snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "inspect/snapshot/pages/page.h"
#include "inspect/snapshot/report.h"
#include "tables/table/table.h"

namespace ridgepoint::views {

// All figures of a device.
Json snapshot_json(const SnapshotFileView& file, const SnapshotReport& report);
// The same as rows of one table.
Table snapshot_rows(const SnapshotFileView& file);

Table level_table(const SnapshotReport& report);
Table category_table(const MemoryContents& contents, std::uint64_t whole_bytes);
Table origin_table(const MemoryContents& contents, std::uint64_t whole_bytes, std::size_t top);
Table phase_table(const SnapshotReport& report);
Table leak_table(const SnapshotLeaks& leaks, std::size_t top);

// Sentences.
std::string history_sentence(const SnapshotReport& report);
std::string fragmentation_sentence(const SnapshotReport& report);
std::string leak_sentence(const SnapshotLeaks& leaks);
std::string failure_sentence(const SnapshotOutOfMemory& failure, std::int64_t begin_us);
std::string retry_sentence(const SnapshotRetries& retries);
std::string sawtooth_sentence(const SnapshotSawtooth& sawtooth);

std::string_view name(SnapshotLeaks::Basis basis);
std::string_view name(SnapshotSawtooth::Verdict verdict);

}  // namespace ridgepoint::views
