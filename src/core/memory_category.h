// The purpose of a block of memory. The planner assigns it; allocators and traces report it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/types/enum_names.h"

namespace ridgepoint {

// activation: computed in forward and read in backward. temporary: any other intermediate result. data: tokens and
// constants.
enum class MemoryCategory : std::uint8_t {
  parameter,
  gradient,
  activation,
  optimizer_state,
  temporary,
  workspace,
  data
};
inline constexpr std::size_t kMemoryCategoryCount = 7;
inline constexpr auto kMemoryCategoryNames = enum_names<MemoryCategory>(
    "parameter", "gradient", "activation", "optimizer_state", "temporary", "workspace", "data");
constexpr std::string_view name(MemoryCategory category) { return kMemoryCategoryNames[category]; }

}  // namespace ridgepoint
