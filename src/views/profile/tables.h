// Profiles as tables for people: kernels, classes by phase, modules, attention part by part, idle time, the roofline
// and what could be won, and the trace held against the clock. Times are of one step, the mean of the profiled ones.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "measure/profile/json.h"
#include "measure/profile/profile.h"

namespace ridgepoint::cli {

struct ProfileViewOptions {
  std::optional<Breakdown> only;  // one view; otherwise all but single launches
  ProfileDetail detail;
  std::size_t top = 15;  // kernels, and places to win time, at most; 0 for all
  bool markdown = false;
  std::size_t width = SIZE_MAX;  // kernels' names are cut to it
};

// What was timed, how many steps were profiled, and what is missing.
std::string profile_heading(const Profile& profile, const ProfileViewOptions& options);

std::string profile_as_text(const Profile& profile, const ProfileViewOptions& options);

// How shares of time and operations move between profiles (of several modes), class by class.
std::string comparison_as_text(std::span<const Profile> profiles, const ProfileViewOptions& options);

}  // namespace ridgepoint::cli
