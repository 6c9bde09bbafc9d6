// Products and sums of sizes that may pass 64 bits. They throw Error (usage) naming what was counted;
// saturated_product() ends at the largest number instead.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace ridgepoint {

std::int64_t checked_product(std::initializer_list<std::int64_t> factors, std::string_view what);
std::int64_t checked_sum(std::initializer_list<std::int64_t> terms, std::string_view what);

// Of factors that are not negative.
std::int64_t saturated_product(std::initializer_list<std::int64_t> factors);

}  // namespace ridgepoint
