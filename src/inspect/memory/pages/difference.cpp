// Two snapshots side by side.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/text/text.h"
#include "core/text/units.h"
#include "inspect/memory/pages/page.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

struct Pair {
  std::string name;
  std::uint64_t before = 0;
  std::uint64_t after = 0;

  std::int64_t change() const { return static_cast<std::int64_t>(after) - static_cast<std::int64_t>(before); }
  std::uint64_t size() const { return after > before ? after - before : before - after; }
};

struct Section {
  std::string key;    // in CSV and JSON
  std::string title;  // in tables
  std::string heading;
  std::vector<Pair> pairs;
};

using Shares = std::vector<MemoryShare>;

// By name, the largest change first.
std::vector<Pair> joined(const Shares& before, const Shares& after) {
  std::map<std::string, Pair> by_name;
  const auto key = [](const MemoryShare& share) {
    return share.library.empty() ? share.name : fmt::format("{} > {}", share.name, share.library);
  };
  for (const MemoryShare& share : before) by_name[key(share)].before += share.bytes;
  for (const MemoryShare& share : after) by_name[key(share)].after += share.bytes;
  std::vector<Pair> pairs;
  for (auto& [name, pair] : by_name) pairs.push_back({name, pair.before, pair.after});
  std::ranges::stable_sort(pairs, std::ranges::greater{}, &Pair::size);
  return pairs;
}

std::vector<Section> sections_of(const MemoryReport& a, const MemoryReport& b) {
  const std::vector<Pair> figures = {
      {"peak allocated", a.peak.allocated_bytes, b.peak.allocated_bytes},
      {"peak active", a.peak.active_bytes, b.peak.active_bytes},
      {"peak reserved", a.peak.reserved_bytes, b.peak.reserved_bytes},
      {"reserved, not active, at the peak", a.fragmentation.at_peak_bytes, b.fragmentation.at_peak_bytes},
      {"allocated at the start", a.start.allocated_bytes, b.start.allocated_bytes},
      {"allocated at the end", a.end.allocated_bytes, b.end.allocated_bytes},
      {"leaked", a.leaks.leaked_bytes, b.leaks.leaked_bytes}};
  const bool inferred = a.categories_inferred || b.categories_inferred;
  return {{"figures", "Memory", "figure", figures},
          {"categories", inferred ? "At the peak, by category (inferred)" : "At the peak, by category", "category",
           joined(a.contents.categories, b.contents.categories)},
          {"frames", "At the peak, by frame, largest change first", "frame",
           joined(a.contents.origins, b.contents.origins)}};
}

Table table_of(const Section& section, std::size_t top) {
  Table table;
  table.title = section.title;
  table.columns = {left(section.heading), right("before"), right("after"), right("difference")};
  const std::size_t shown = top == 0 ? section.pairs.size() : std::min(top, section.pairs.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Pair& pair = section.pairs[i];
    table.add({pair.name, format_bytes(pair.before), format_bytes(pair.after),
               (pair.change() > 0 ? "+" : "") + format_signed_bytes(pair.change())});
  }
  if (shown < section.pairs.size()) table.remark = fmt::format("{} more.", section.pairs.size() - shown);
  return table;
}

Json json_of(const Pair& pair) {
  return {{"name", pair.name},
          {"before_bytes", pair.before},
          {"after_bytes", pair.after},
          {"difference_bytes", pair.change()}};
}

const MemoryReport* report_of(const SnapshotFileView& file, std::int64_t device) {
  const auto found = std::ranges::find(file.devices, device, &MemoryReport::device);
  return found == file.devices.end() ? nullptr : &*found;
}

}  // namespace

Page snapshot_difference_page(const SnapshotFileView& before, const SnapshotFileView& after, std::size_t top,
                              Format format) {
  Page page;
  if (format == Format::csv)
    page.tables.push_back(
        with_columns({"device", "section", "name", "before_bytes", "after_bytes", "difference_bytes"}));
  for (const MemoryReport& b : after.devices) {
    const MemoryReport* a = report_of(before, b.device);
    if (a == nullptr) continue;
    Json json = {{"before", before.path}, {"after", after.path}, {"device", b.device}};
    const std::size_t first_table = page.tables.size();
    for (const Section& section : sections_of(*a, b)) {
      json[section.key] = json_list(section.pairs, [](const Pair& pair) { return json_of(pair); });
      for (const Pair& pair : section.pairs) {
        if (format != Format::csv) break;
        page.tables.front().add({b.device, section.key, pair.name, static_cast<std::int64_t>(pair.before),
                                 static_cast<std::int64_t>(pair.after), pair.change()});
      }
      if (is_for_people(format)) page.tables.push_back(table_of(section, top));
    }
    if (is_for_people(format)) {
      page.tables[first_table].caption =
          fmt::format("before: {}\nafter: {}\ndevice {}", printable(before.path), printable(after.path), b.device);
    } else if (format != Format::csv) {
      page.documents.push_back(dump_json(json));
    }
  }
  return page;
}

}  // namespace ridgepoint::tables
