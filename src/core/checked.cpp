#include "core/checked.h"

#include <algorithm>
#include <string>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

[[noreturn]] void fail(std::string_view what) {
  throw Error(std::string(what) + " overflows 64 bits; choose smaller sizes", ErrorKind::usage);
}

}  // namespace

std::int64_t checked_product(std::initializer_list<std::int64_t> factors, std::string_view what) {
  // A partial product may overflow where a later factor is 0.
  if (std::ranges::find(factors, 0) != factors.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) fail(what);
  }
  return product;
}

std::int64_t checked_sum(std::initializer_list<std::int64_t> terms, std::string_view what) {
  std::int64_t sum = 0;
  for (const std::int64_t term : terms) {
    if (__builtin_add_overflow(sum, term, &sum)) fail(what);
  }
  return sum;
}

std::int64_t saturated_product(std::initializer_list<std::int64_t> factors) {
  if (std::ranges::find(factors, 0) != factors.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return INT64_MAX;
  }
  return product;
}

}  // namespace ridgepoint
