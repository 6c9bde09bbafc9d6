// Profiles as JSON and CSV. JSON is the run's record (docs/record.md) with one more member, `profile`; CSV is one
// breakdown, a row a line, after the settings that tell runs apart and how the run ended; a run without kernels has one
// line, of those alone. All figures are of one step: sums over the profiled
// steps divided by their number. docs/profile.md lists the names.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/scope.h"
#include "measure/profile/profile.h"

namespace ridgepoint {

// kernel: by name. op_class: by phase and class. scope: by module. launch: every kernel of the first profiled step.
// class_total: by class over all phases, and what was idle; in CSV only.
enum class Breakdown : std::uint8_t { kernel, op_class, scope, launch, class_total };
inline constexpr std::array kBreakdowns = {Breakdown::kernel, Breakdown::op_class, Breakdown::scope, Breakdown::launch};
std::string_view name(Breakdown breakdown);  // "class" for op_class; class_total has none
// The inverse of name(). Throws Error (usage) naming the nearest.
Breakdown breakdown_from_name(std::string_view text);

struct ProfileDetail {
  int depth = 3;  // of modules
  Layers layers = Layers::added_up;
  bool launches = false;  // JSON also has every kernel of the first profiled step
};

// One line without a newline.
std::string to_json(const Profile& profile, const ProfileDetail& detail);

std::string csv_heading(Breakdown breakdown);
std::string csv_rows(const Profile& profile, Breakdown breakdown, const ProfileDetail& detail);

}  // namespace ridgepoint
