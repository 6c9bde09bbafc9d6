// The number of processors that this process may use, by its affinity mask and its control groups (cgroups).
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace ridgepoint {

// The paths of the cgroup interface; tests use others.
struct ControlGroups {
  std::filesystem::path membership = "/proc/self/cgroup";
  std::filesystem::path root = "/sys/fs/cgroup";
};

// Calls visit(folder, version 1 or 2) for this process's cgroup of `controller` ("memory", "cpu") and for each parent
// group, innermost first. Version 2 has one hierarchy for all controllers, version 1 has one for each.
void for_each_control_group(std::string_view controller,
                            const std::function<void(const std::filesystem::path& folder, int version)>& visit,
                            const ControlGroups& groups = {});

// The CPU quota of the control groups, in whole processors, rounded down but at least 1. INT_MAX without a quota.
int control_group_processors(const ControlGroups& groups = {});

// The smaller of the affinity mask's processors and control_group_processors().
int usable_processors();

}  // namespace ridgepoint
