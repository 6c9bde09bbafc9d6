#include "core/memory_category.h"

#include "core/enum_names.h"

namespace ridgepoint {
namespace {

constexpr auto kNames = enum_names<MemoryCategory>("parameter", "gradient", "activation", "optimizer_state",
                                                   "temporary", "workspace", "data");

}  // namespace

std::string_view name(MemoryCategory category) { return kNames[category]; }

}  // namespace ridgepoint
