// Profiles as pages. Table and markdown have a verdict, then sections: kernels, phases and classes, modules, parts of
// attention, idle time, roofline, recoverable time, profiled against timed steps. JSON is the record of the run
// (docs/record.md) with a member `profile`. CSV is one breakdown: each line has the settings and the status of the run,
// then a row of the breakdown; a run without kernels has one line without such a row. All figures are means over the
// profiled steps. docs/commands/profile.md lists the names.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "inspect/profile/profile.h"
#include "ir/scope.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

// kernel: by name. op_class: by phase and class. scope: by module. launch: every kernel of the first profiled step.
// class_total: by class over all phases, and idle time; in CSV only.
enum class Breakdown : std::uint8_t { kernel, op_class, scope, launch, class_total };
// "kernel", "class" (op_class), "scope" or "launch". Throws Error (usage) naming the nearest.
Breakdown breakdown_from_name(std::string_view text);

struct ProfileDetail {
  int depth = 3;  // levels of modules
  Layers layers = Layers::added_up;
  bool launches = false;  // JSON also has every kernel of the first profiled step
};

// CSV has that breakdown; JSON has all, launches only if `detail` asks for them.
Page profile_files(std::span<const Profile> profiles, Breakdown breakdown, const ProfileDetail& detail, Format format);

struct ProfileViewOptions {
  std::optional<Breakdown> only;  // one breakdown; empty: all except launches, in CSV kernels
  ProfileDetail detail;
  std::size_t top = 15;   // rows in the tables of kernels and of recoverable time; 0 shows all
  bool compares = false;  // one table that compares the profiles by class
};

Page profile_page(std::span<const Profile> profiles, const ProfileViewOptions& options, Format format);

}  // namespace ridgepoint::tables
