// Products and sums that may overflow 64 bits. The checked functions throw Error (usage) naming `what`.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace ridgepoint {

std::int64_t checked_product(std::initializer_list<std::int64_t> factors, std::string_view what);
std::int64_t checked_sum(std::initializer_list<std::int64_t> terms, std::string_view what);

// INT64_MAX on overflow. Factors must not be negative.
std::int64_t saturated_product(std::initializer_list<std::int64_t> factors);

}  // namespace ridgepoint
