// A snapshot's report as rows of CSV.
#include "inspect/memory/pages/parts.h"

namespace ridgepoint::tables {
namespace {

Cell number(std::uint64_t value) { return static_cast<std::int64_t>(value); }

class Rows {
 public:
  explicit Rows(Table& table) : table_(table) {}

  void add(const MemoryReport& report) {
    device_ = report.device;
    levels("at_start", report.start);
    levels("peak", report.peak);
    levels("at_peak", report.contents.levels);
    levels("at_end", report.end);
    for (const MemoryShare& share : report.contents.categories)
      row("category", share.name, "", share.blocks, share.bytes);
    for (const MemoryShare& share : report.contents.origins) {
      row("frame", share.name, share.library, share.blocks, share.bytes);
    }
    for (const MemoryPhase& phase : report.phases) {
      table_.add({device_, "phase", phase.name, Cell(), Cell(), number(phase.peak_bytes), number(phase.begin_bytes),
                  number(phase.end_bytes), phase.begin.time_us, phase.end.time_us});
    }
    row("leaked", "all", "", {}, report.leaks.leaked_bytes);
    for (const MemoryLeak& leak : report.leaks.groups) row("leak", leak.origin, leak.library, leak.blocks, leak.bytes);
    for (const OutOfMemoryEvent& failure : report.out_of_memory) {
      table_.add({device_, "oom", failure.origin, Cell(), Cell(), number(failure.requested_bytes), Cell(), Cell(),
                  failure.when.time_us, Cell()});
    }
    row("allocator_retries", "all", "", report.retries.count, report.retries.bytes);
  }

 private:
  void row(const char* section, const std::string& name, const std::string& library, std::optional<std::uint64_t> count,
           std::uint64_t bytes) {
    table_.add({device_, section, name, text_cell(library), count ? number(*count) : Cell(), number(bytes), Cell(),
                Cell(), Cell(), Cell()});
  }
  void levels(const char* section, const MemoryLevels& levels) {
    row(section, "allocated", "", {}, levels.allocated_bytes);
    row(section, "active", "", {}, levels.active_bytes);
    row(section, "requested", "", {}, levels.requested_bytes);
    row(section, "reserved", "", {}, levels.reserved_bytes);
  }

  Table& table_;
  std::int64_t device_ = 0;
};

}  // namespace

Table snapshot_rows(const SnapshotFileView& file) {
  Table table;
  for (const char* key :
       {"device", "section", "name", "library", "count", "bytes", "begin_bytes", "end_bytes", "begin_us", "end_us"}) {
    table.columns.push_back({key, key});
  }
  Rows rows(table);
  for (const MemoryReport& report : file.devices) rows.add(report);
  return table;
}

}  // namespace ridgepoint::tables
