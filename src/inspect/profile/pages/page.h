// Profiles as pages. Table and markdown have a verdict, then sections: kernels, phases and classes, modules, parts of
// attention, idle time, roofline, recoverable time, profiled against timed steps. Times are means over the profiled
// steps.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "inspect/profile/pages/files.h"
#include "inspect/profile/profile.h"
#include "tables/table/format.h"
#include "tables/table/table.h"

namespace ridgepoint::views {

struct ProfileViewOptions {
  std::optional<Breakdown> only;  // one breakdown; empty: all except launches, in CSV kernels
  ProfileDetail detail;
  std::size_t top = 15;   // rows in the tables of kernels and of recoverable time; 0 shows all
  bool compares = false;  // one table that compares the profiles by class
};

Page profile_page(std::span<const Profile> profiles, const ProfileViewOptions& options, Format format);

}  // namespace ridgepoint::views
