#include "core/checked.h"

#include <algorithm>
#include <optional>
#include <string>

#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

[[noreturn]] void fail(std::string_view what) {
  throw Error(std::string(what) + " overflows 64 bits; choose smaller sizes", ErrorKind::usage);
}

// Empty on overflow.
std::optional<std::int64_t> product(std::initializer_list<std::int64_t> factors) {
  // A partial product may overflow where a later factor is 0.
  if (std::ranges::find(factors, 0) != factors.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

}  // namespace

std::int64_t checked_product(std::initializer_list<std::int64_t> factors, std::string_view what) {
  const std::optional<std::int64_t> result = product(factors);
  if (!result) fail(what);
  return *result;
}

std::int64_t checked_sum(std::initializer_list<std::int64_t> terms, std::string_view what) {
  std::int64_t sum = 0;
  for (const std::int64_t term : terms) {
    if (__builtin_add_overflow(sum, term, &sum)) fail(what);
  }
  return sum;
}

std::int64_t saturated_product(std::initializer_list<std::int64_t> factors) {
  return product(factors).value_or(INT64_MAX);
}

}  // namespace ridgepoint
