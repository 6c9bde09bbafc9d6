// The parts of a page of memory. `is_run`: of a run; otherwise of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/json.h"
#include "inspect/memory/pages/page.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

inline Cell count_cell(std::uint64_t number) { return static_cast<std::int64_t>(number); }

// The timeline in characters.
Table timeline_chart(const Timeline& timeline);

Table level_table(const MemoryReport& report, bool is_run);
// A row a rank of each run that was divided among ranks.
Table rank_table(std::span<const MemoryRun> runs);
// The contents of each phase's peak; the last rows are the allocator's overhead.
Table phase_peak_table(const std::vector<PhasePeak>& peaks);
Table category_table(const MemoryContents& contents);
// The groups of one category, or of all, largest first.
Table group_table(const MemoryContents& contents, std::optional<std::string_view> only, std::size_t top);
Table origin_table(const MemoryContents& contents, std::size_t top);
Table request_table(const std::vector<MemoryRequest>& requests, std::size_t top);
// A row a name of the annotations.
Table annotation_table(const MemoryReport& report);
Table leak_table(const MemoryLeaks& leaks, std::size_t top);
// A row a setting; and the same of all devices as rows of CSV.
Table replay_table(const MemoryReplay& replay);
Table replay_rows(const SnapshotFileView& file);

// Sentences; empty where there is nothing to say.
std::string device_sentence(const Record& record);
std::string host_sentence(const Record& record);
std::string viewer_sentence(const MemoryReport& report);
std::string residual_sentence(const MemoryRun& run);
std::string block_sentence(const BlockContents& block);
std::string history_sentence(const MemoryReport& report);
std::string fragmentation_sentence(const MemoryReport& report);
std::string leak_sentence(const MemoryLeaks& leaks);
std::string failure_sentence(const OutOfMemoryEvent& failure, std::int64_t begin_us);
std::string retry_sentence(const AllocatorRetries& retries);
// `work_problem`: why the work of the device is not known, for a run.
std::string sawtooth_sentence(const MemoryReport& report, bool is_run, const std::string& work_problem);

std::string replay_sentences(const MemoryReplay& replay);
// What would have avoided a failure of the file, with the replay as its proof.
std::string avoidance_sentence(const MemoryReplay& replay);

std::string_view name(MemoryLeaks::Basis basis);

// All figures of a run, the fields of its record included.
Json memory_json(const MemoryRun& run);
// All figures of a device of a file, and the same as rows of one table.
Json snapshot_json(const SnapshotFileView& file, const MemoryReport& report);
Json json_of(const MemoryReplay& replay);
Table snapshot_rows(const SnapshotFileView& file);

}  // namespace ridgepoint::tables
