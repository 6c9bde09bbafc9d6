#include "backends/cpu/processor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "core/processors.h"

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

std::size_t control_group_limit_bytes() {
  std::size_t smallest = std::numeric_limits<std::size_t>::max();
  for_each_control_group("memory", [&](const std::filesystem::path& folder, int version) {
    const char* file = version == 1 ? "memory.limit_in_bytes" : "memory.max";
    smallest = std::min(smallest, read_limit(folder / file).value_or(smallest));
  });
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
