// Builds small memory snapshots, as the JSON that PyTorch's pickle would be, and reads them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "inspect/memory/analyse.h"
#include "interchange/snapshot/reader/read_snapshot.h"

namespace ridgepoint {

inline constexpr std::uint64_t kSegmentBase = 0x7f0000000000;
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

inline nlohmann::json frame_json(const std::string& filename, int line, const std::string& name) {
  return {{"filename", filename}, {"line", line}, {"name", name}};
}

// The innermost line first.
inline nlohmann::json stack_json(const std::vector<nlohmann::json>& lines) { return lines; }

// One device. Events are 10 us apart.
class SnapshotJson {
 public:
  nlohmann::json events = nlohmann::json::array();
  nlohmann::json segments = nlohmann::json::array();
  nlohmann::json annotations = nlohmann::json::array();
  nlohmann::json settings = nlohmann::json::object();

  nlohmann::json& event(const std::string& action, std::uint64_t address, std::uint64_t size,
                        const nlohmann::json& frames = nlohmann::json::array()) {
    events.push_back({{"action", action},
                      {action == "oom" ? "device_free" : "addr", address},
                      {"size", size},
                      {"stream", 0},
                      {"time_us", time_us_ += 10},
                      {"frames", frames}});
    return events.back();
  }
  void alloc(std::uint64_t address, std::uint64_t size, const nlohmann::json& frames = nlohmann::json::array()) {
    event("alloc", address, size, frames);
  }
  void free(std::uint64_t address, std::uint64_t size) {
    event("free_requested", address, size);
    event("free_completed", address, size);
  }
  void mark(const std::string& name, bool is_start) {
    annotations.push_back(
        {{"name", name}, {"stage", is_start ? "START" : "END"}, {"device", 0}, {"time_us", time_us_ + 1}});
  }
  nlohmann::json& segment(std::uint64_t address, std::uint64_t size, const std::string& type = "large") {
    segments.push_back({{"device", 0},
                        {"address", address},
                        {"total_size", size},
                        {"stream", 0},
                        {"segment_type", type},
                        {"is_expandable", false},
                        {"frames", nlohmann::json::array()},
                        {"blocks", nlohmann::json::array()}});
    return segments.back();
  }
  static void block(nlohmann::json& segment, std::uint64_t address, std::uint64_t size, const std::string& state,
                    std::uint64_t requested) {
    segment["blocks"].push_back({{"address", address},
                                 {"size", size},
                                 {"requested_size", requested},
                                 {"state", state},
                                 {"frames", nlohmann::json::array()}});
  }
  static void live(nlohmann::json& segment, std::uint64_t address, std::uint64_t size) {
    block(segment, address, size, "active_allocated", size);
  }

  nlohmann::json document() const {
    return {{"segments", segments},
            {"device_traces", nlohmann::json::array({events})},
            {"allocator_settings", settings},
            {"external_annotations", annotations}};
  }
  Snapshot read(const SnapshotReadOptions& options = {}) const {
    const TemporaryFolder folder;
    write_file(folder / "s.json", document().dump());
    return read_snapshot(folder / "s.json", nullptr, options);
  }
  MemoryReport report() const { return analyse_memory(read(), 0).report; }

 private:
  std::int64_t time_us_ = 1'700'000'000'000'000;
};

}  // namespace ridgepoint
