// The tables of a profile, one a section (docs/profile.md says what each shows).
#pragma once

#include <cstddef>
#include <span>

#include "measure/profile/views.h"
#include "views/profile/figures.h"
#include "views/profile/files.h"

namespace ridgepoint::views {

// At most `shown` kernels, the others in one row, then all.
Table kernel_table(const ProfileFigures& figures, std::size_t shown);
Table class_table(const ProfileFigures& figures);
// Levels are indented.
Table scope_table(const ProfileFigures& figures, const ProfileDetail& detail);
Table attention_table(const ProfileFigures& figures);
Table idle_table(const ProfileFigures& figures);
Table roofline_table(const ProfileFigures& figures);
// At most `shown` places.
Table recoverable_table(const ProfileFigures& figures, std::size_t shown);
Table launch_table(const Profile& profile);
// How shares of time and operations move between profiles, class by class.
Table comparison_table(std::span<const Profile> profiles);
Table clock_table(const ProfileFigures& figures, const Reconciliation& found);

}  // namespace ridgepoint::views
