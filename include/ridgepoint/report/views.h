// Records and profiles as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ridgepoint/inspect/profile.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint {

// As `ridgepoint bench` and `ridgepoint profile` print them, in at most `width` columns.
std::string to_text(const Record& record, std::size_t width = SIZE_MAX);
std::string to_text(const Profile& profile, std::size_t width = SIZE_MAX);

}  // namespace ridgepoint
