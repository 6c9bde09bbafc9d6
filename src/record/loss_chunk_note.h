// What tables of plans say of a loss that is computed in chunks of tokens.
#pragma once

#include <span>
#include <string>

#include "ridgepoint/record.h"

namespace ridgepoint::views {

// A line with what the chunks save; empty where no record tells.
std::string loss_chunk_note(std::span<const Record> records);

}  // namespace ridgepoint::views
