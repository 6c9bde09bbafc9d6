// The tables of a profile, one a section (docs/profile.md says what each shows).
#pragma once

#include <cstddef>

#include "measure/profile/json.h"
#include "measure/profile/views.h"
#include "views/profile/figures.h"
#include "views/table/fitted_table.h"

namespace ridgepoint::cli {

// At most `shown` kernels, the others in one row, then all.
FittedTable kernel_table(const ProfileFigures& figures, std::size_t shown);
FittedTable class_table(const ProfileFigures& figures);
// Levels are indented by twice `indent` each.
FittedTable scope_table(const ProfileFigures& figures, const ProfileDetail& detail, char indent);
FittedTable attention_table(const ProfileFigures& figures);
FittedTable idle_table(const ProfileFigures& figures);
FittedTable roofline_table(const ProfileFigures& figures);
// At most `shown` places.
FittedTable recoverable_table(const ProfileFigures& figures, std::size_t shown);
FittedTable launch_table(const Profile& profile);
FittedTable clock_table(const ProfileFigures& figures, const Reconciliation& found);

}  // namespace ridgepoint::cli
