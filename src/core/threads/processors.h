// How many processors this process may use, and the limits of the control groups it is in.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace ridgepoint {

// Where the system tells a process its control groups; other roots are for tests.
struct ControlGroups {
  std::filesystem::path membership = "/proc/self/cgroup";
  std::filesystem::path root = "/sys/fs/cgroup";
};

// Calls visit(folder, version 1 or 2) for the group of `controller` ("memory", "cpu") that this process is in and for
// all it lies in, innermost first. Version 2 has one hierarchy for all controllers, version 1 one for each.
void for_each_control_group(std::string_view controller,
                            const std::function<void(const std::filesystem::path& folder, int version)>& visit,
                            const ControlGroups& groups = {});

// The processors' worth of time that the control groups grant, rounded down but at least 1: a loop gains nothing from
// a thread that is stopped for a part of each period. INT_MAX where nothing is limited.
int control_group_processors(const ControlGroups& groups = {});

// Those the scheduler may put this process on, or what its control groups grant where that is less.
int usable_processors();

}  // namespace ridgepoint
