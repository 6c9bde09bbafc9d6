// Names and checks of low-rank adapters.
#pragma once

#include <string_view>

#include "ridgepoint/adapters.h"

namespace ridgepoint {

// What follows the name of a module in those of its adapters.
inline constexpr std::string_view kLoraA = ".lora_A.weight";
inline constexpr std::string_view kLoraB = ".lora_B.weight";

// Whether a parameter is one of an adapter's; a file of a model's weights has none.
inline bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(kLoraA) || parameter.ends_with(kLoraB);
}

// Throws Error (usage) where a value is out of range.
void check(const LoraOptions& options);

}  // namespace ridgepoint
