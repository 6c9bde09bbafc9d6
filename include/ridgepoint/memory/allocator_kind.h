// The allocators of device memory that a user can choose.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ridgepoint/ops/compile.h"

namespace ridgepoint {

// caching: blocks are allocated and freed while a run goes on, by the rules of PyTorch's allocator. arena: every block
// has a fixed address in one segment, which is reserved when the program is made; runs allocate nothing.
enum class AllocatorKind : std::uint8_t { caching, arena };
inline constexpr std::array kAllAllocatorKinds = {AllocatorKind::caching, AllocatorKind::arena};

// caching arena
std::string_view name(AllocatorKind kind);
// The inverse of name(). Throws Error (usage) naming the nearest.
AllocatorKind allocator_kind_from_name(std::string_view text);

// arena for Compile::full, caching for the levels below.
AllocatorKind default_allocator(Compile level);

}  // namespace ridgepoint
