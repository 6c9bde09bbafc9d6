#include "ridgepoint/allocator_kind.h"

#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

constexpr auto kAllocatorNames = enum_names<AllocatorKind>("caching", "arena");

}  // namespace

std::string_view name(AllocatorKind kind) { return kAllocatorNames[kind]; }
AllocatorKind allocator_kind_from_name(std::string_view text) {
  return kAllocatorNames.parse(text, "unknown allocator '{}'");
}
AllocatorKind default_allocator(Compile level) {
  return level == Compile::full ? AllocatorKind::arena : AllocatorKind::caching;
}

}  // namespace ridgepoint
