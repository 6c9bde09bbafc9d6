// What a plan of several ranks says where no time is predicted because the links of the card are not known.
#pragma once

#include <span>
#include <string>

#include "ridgepoint/record.h"

namespace ridgepoint::views {

// Empty if there is no such record.
std::string unknown_links_note(std::span<const Record> records);

}  // namespace ridgepoint::views
