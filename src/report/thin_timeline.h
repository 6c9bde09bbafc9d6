// Fewer events of a long timeline, for a page that must stay small.
#pragma once

#include <cstddef>

#include "core/text/json.h"

namespace ridgepoint::views {

// A timeline of some `most` events at most, from one of timeline_columns(); a shorter one as it is. In each stretch of
// events the first, the lowest, the highest and the last stay; those between them are added up by category, as one
// event a category. So every level that stays is right, its categories too, and no peak and no phase is lost.
Json thin_timeline(const Json& columns, std::size_t most);

}  // namespace ridgepoint::views
