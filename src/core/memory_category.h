// What a block of memory is for. The planner assigns it, allocators and traces carry it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ridgepoint {

// activation: made in the forward pass and read in the backward pass. temporary: any other intermediate.
// data: tokens and constants.
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
std::string_view name(MemoryCategory category);

}  // namespace ridgepoint
