#include "backends/cpu/processor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "core/text/text.h"
#include "core/threads/processors.h"

namespace ridgepoint::cpu {
namespace {

// A limit file has a number of bytes, or "max" for no limit.
std::optional<std::size_t> read_limit(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  if (!(file >> bytes)) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

// The bytes that a control group may still take: its limit less its usage, without file pages that Linux can drop.
// Empty if a file is missing or there is no limit.
std::optional<std::size_t> free_in_group(const std::filesystem::path& group, std::string_view limit_file,
                                         std::string_view usage_file) {
  const std::optional<std::size_t> limit = read_limit(group / limit_file);
  const std::optional<std::size_t> usage = read_limit(group / usage_file);
  if (!limit || !usage) return limit;
  std::size_t droppable = 0;
  std::ifstream statistics(group / "memory.stat");
  for (std::string field; statistics >> field;) {
    std::size_t bytes = 0;
    if (field == "inactive_file" && statistics >> bytes) droppable = bytes;
    statistics.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const std::size_t held = *usage - std::min(*usage, droppable);
  return *limit - std::min(*limit, held);
}

struct GroupMemory {
  std::size_t limit_bytes = std::numeric_limits<std::size_t>::max();
  std::size_t free_bytes = std::numeric_limits<std::size_t>::max();
};

// The minimum over this process's group and its ancestors. Version 2 has the limit in memory.max, version 1 in
// memory.limit_in_bytes.
GroupMemory control_group_memory() {
  GroupMemory least;
  for_each_control_group("memory", [&](const std::filesystem::path& folder, int version) {
    const char* limit_file = version == 1 ? "memory.limit_in_bytes" : "memory.max";
    const char* usage_file = version == 1 ? "memory.usage_in_bytes" : "memory.current";
    least.limit_bytes = std::min(least.limit_bytes, read_limit(folder / limit_file).value_or(least.limit_bytes));
    least.free_bytes =
        std::min(least.free_bytes, free_in_group(folder, limit_file, usage_file).value_or(least.free_bytes));
  });
  return least;
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos) return std::string(trimmed(std::string_view(line).substr(colon + 1)));
  }
  return "CPU";
}

std::size_t usable_memory_bytes() {
  const auto pages = static_cast<std::size_t>(std::max(sysconf(_SC_PHYS_PAGES), 0L));
  const auto page_bytes = static_cast<std::size_t>(std::max(sysconf(_SC_PAGESIZE), 0L));
  return std::min(pages * page_bytes, control_group_memory().limit_bytes);
}

std::size_t available_memory_bytes() {
  constexpr std::string_view kField = "MemAvailable:";
  std::size_t machine_bytes = std::numeric_limits<std::size_t>::max();
  std::ifstream file("/proc/meminfo");
  for (std::string field; file >> field;) {
    std::size_t kibibytes = 0;
    if (field == kField && file >> kibibytes) machine_bytes = kibibytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::min(machine_bytes, control_group_memory().free_bytes);
}

}  // namespace ridgepoint::cpu
