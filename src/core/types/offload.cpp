#include "ridgepoint/offload.h"

#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

constexpr auto kOffloadNames = enum_names<Offload>("none", "optimizer", "auto");

}  // namespace

std::string_view name(Offload offload) { return kOffloadNames[offload]; }
Offload offload_from_name(std::string_view text) { return kOffloadNames.parse(text, "'{}' is unknown"); }

}  // namespace ridgepoint
