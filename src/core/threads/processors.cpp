#include "core/threads/processors.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ridgepoint {
namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max();

bool names_controller(std::string_view list, std::string_view controller) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == controller) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// Quota and period in microseconds. Version 2 has both in one file: "max 100000" (no quota) or "150000 100000". Version
// 1 has two files, and a quota of -1 means none.
std::optional<double> processors_of(const std::filesystem::path& folder, int version) {
  std::ifstream quota_file(folder / (version == 2 ? "cpu.max" : "cpu.cfs_quota_us"));
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  double quota = 0.0;
  double period = 0.0;
  if (!(quota_file >> quota) || !((version == 2 ? quota_file : period_file) >> period)) return std::nullopt;
  if (quota <= 0.0 || period <= 0.0) return std::nullopt;
  return quota / period;
}

// A machine of more than 1024 processors needs a mask longer than cpu_set_t.
int scheduled_processors() {
  for (int count = CPU_SETSIZE; count <= 1 << 20; count *= 2) {
    std::vector<cpu_set_t> set(static_cast<std::size_t>(count / CPU_SETSIZE));
    const std::size_t bytes = set.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) == 0) return std::max(CPU_COUNT_S(bytes, set.data()), 1);
  }
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

}  // namespace

void for_each_control_group(std::string_view controller,
                            const std::function<void(const std::filesystem::path&, int)>& visit,
                            const ControlGroups& groups) {
  std::ifstream membership(groups.membership);
  for (std::string line; std::getline(membership, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version1 = names_controller(controllers, controller);
    if (!version1 && !controllers.empty()) continue;
    const std::filesystem::path root = version1 ? groups.root / controller : groups.root;
    const std::filesystem::path own = line.substr(second + 1);
    for (std::filesystem::path group = own.relative_path();; group = group.parent_path()) {
      visit(root / group, version1 ? 1 : 2);
      if (group.empty()) break;
    }
  }
}

int control_group_processors(const ControlGroups& groups) {
  int fewest = kUnlimited;
  for_each_control_group(
      "cpu",
      [&](const std::filesystem::path& folder, int version) {
        const std::optional<double> granted = processors_of(folder, version);
        if (granted && *granted < kUnlimited) fewest = std::min(fewest, std::max(static_cast<int>(*granted), 1));
      },
      groups);
  return fewest;
}

int usable_processors() { return std::min(scheduled_processors(), control_group_processors()); }

}  // namespace ridgepoint
