// What a constant node holds. Its attribute `value` is a double or an integer of 64 bits; the text form tells them
// apart by the point. The constant of an integer dtype is a whole number that the dtype holds (its shape rule sees to
// that).
#pragma once

#include <cstdint>

#include "ridgepoint/graph.h"

namespace ridgepoint {

double constant_value(const Node& node);
// Of an integer dtype: exact.
std::int64_t constant_integer(const Node& node);

}  // namespace ridgepoint
