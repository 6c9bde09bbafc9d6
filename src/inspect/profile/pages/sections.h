// The tables of a profile (docs/profile.md explains each).
#pragma once

#include <cstddef>
#include <span>

#include "inspect/profile/pages/figures.h"
#include "inspect/profile/pages/files.h"
#include "inspect/profile/views.h"

namespace ridgepoint::views {

// At most `shown` kernels, one row for the others, one for the sum.
Table kernel_table(const ProfileFigures& figures, std::size_t shown);
Table class_table(const ProfileFigures& figures);
// Rows are indented by their level.
Table scope_table(const ProfileFigures& figures, const ProfileDetail& detail);
Table attention_table(const ProfileFigures& figures);
// The collectives with the most exposed time, and all together.
Table communication_table(const ProfileFigures& figures, std::size_t shown);
Table rank_table(const ProfileFigures& figures);
Table idle_table(const ProfileFigures& figures);
Table roofline_table(const ProfileFigures& figures);
// At most `shown` rows.
Table recoverable_table(const ProfileFigures& figures, std::size_t shown);
Table launch_table(const Profile& profile);
// Compares the shares of time and operations of each class between profiles.
Table comparison_table(std::span<const Profile> profiles);
Table clock_table(const ProfileFigures& figures, const Reconciliation& found);

}  // namespace ridgepoint::views
