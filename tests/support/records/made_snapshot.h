// Memory snapshots of one device, made event by event.
#pragma once

#include <cstdint>
#include <string_view>

#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

class MadeSnapshot {
 public:
  Snapshot snapshot;
  std::int64_t time_us = 1'700'000'000'000'000;  // of the next event

  MadeSnapshot() { snapshot.histories.emplace_back(); }

  // The number of an origin whose frame this is.
  std::uint32_t origin(std::string_view filename, std::int32_t line, std::string_view name,
                       std::string_view caller = "") {
    SnapshotOrigin origin{.frame = frame(filename, line, name)};
    if (!caller.empty()) origin.caller = frame(filename, line + 1, caller);
    snapshot.origins.push_back(origin);
    return static_cast<std::uint32_t>(snapshot.origins.size() - 1);
  }
  std::uint8_t category(std::string_view name) {
    for (std::size_t i = 0; i < snapshot.categories.size(); ++i) {
      if (snapshot.categories[i] == name) return static_cast<std::uint8_t>(i);
    }
    snapshot.categories.emplace_back(name);
    return static_cast<std::uint8_t>(snapshot.categories.size() - 1);
  }
  void event(MemoryEventKind kind, std::uint64_t address, const MemoryHistory::Request& request) {
    snapshot.histories[0].add(kind, address, request, time_us);
  }
  void mark(std::string_view name, bool is_start) {
    snapshot.annotations.push_back({snapshot.texts.intern(name), is_start, 0, time_us});
  }

 private:
  std::uint32_t frame(std::string_view filename, std::int32_t line, std::string_view name) {
    snapshot.frames.push_back({snapshot.texts.intern(filename), snapshot.texts.intern(name), line});
    return static_cast<std::uint32_t>(snapshot.frames.size() - 1);
  }
};

}  // namespace ridgepoint
