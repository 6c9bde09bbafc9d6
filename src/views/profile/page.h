// Profiles as pages. For people: kernels, classes by phase, modules, attention part by part, idle time, the roofline
// and what could be won, and the trace held against the clock; times are of one step, the mean of the profiled ones.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "measure/profile/profile.h"
#include "views/profile/files.h"
#include "views/table/format.h"
#include "views/table/table.h"

namespace ridgepoint::views {

struct ProfileViewOptions {
  std::optional<Breakdown> only;  // one breakdown; otherwise all but single launches, and in CSV kernels
  ProfileDetail detail;
  std::size_t top = 15;   // kernels, and places to win time, at most; 0 for all
  bool compares = false;  // how shares of time and operations move from one profile to the next, class by class
};

Page profile_page(std::span<const Profile> profiles, const ProfileViewOptions& options, Format format);

}  // namespace ridgepoint::views
