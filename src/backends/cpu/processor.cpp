#include "backends/cpu/processor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace ridgepoint::cpu {
namespace {

constexpr std::string_view kWhitespace = " \t";

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhitespace);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kWhitespace) - begin + 1));
}

// A limit file holds a byte count, or "max" for none.
std::optional<std::size_t> read_limit(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  if (!(file >> bytes)) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

// The smallest limit of a group and all it lies in. Version 2 keeps it in memory.max under the one hierarchy,
// version 1 in memory.limit_in_bytes under the memory hierarchy.
std::size_t control_group_limit_bytes() {
  std::size_t smallest = std::numeric_limits<std::size_t>::max();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version1 = controllers == "memory";
    if (!version1 && !controllers.empty()) continue;
    const std::filesystem::path root = version1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    const char* limit_file = version1 ? "memory.limit_in_bytes" : "memory.max";
    const std::filesystem::path own = line.substr(second + 1);
    for (std::filesystem::path group = own.relative_path();; group = group.parent_path()) {
      smallest = std::min(smallest, read_limit(root / group / limit_file).value_or(smallest));
      if (group.empty()) break;
    }
  }
  return smallest;
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos) return trimmed(std::string_view(line).substr(colon + 1));
  }
  return "CPU";
}

std::size_t usable_memory_bytes() {
  const auto pages = static_cast<std::size_t>(std::max(sysconf(_SC_PHYS_PAGES), 0L));
  const auto page_bytes = static_cast<std::size_t>(std::max(sysconf(_SC_PAGESIZE), 0L));
  return std::min(pages * page_bytes, control_group_limit_bytes());
}

std::size_t available_memory_bytes() {
  constexpr std::string_view kField = "MemAvailable:";
  std::ifstream file("/proc/meminfo");
  for (std::string field; file >> field;) {
    std::size_t kibibytes = 0;
    if (field == kField && file >> kibibytes) return kibibytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace ridgepoint::cpu
