#include "runtime/program/random_pattern.h"

#include <algorithm>
#include <random>

#include "ridgepoint/tensor.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 18;

}  // namespace

std::vector<std::byte> random_pattern(DType dtype, std::size_t bytes) {
  const std::size_t element_bytes = size_bytes(dtype);
  std::vector<std::byte> pattern(std::min(bytes, kMostElements * element_bytes));
  std::minstd_rand random(1);
  std::uniform_real_distribution<double> numbers(-1.0, 1.0);
  for (std::size_t i = 0; i < pattern.size(); i += element_bytes) {
    store_element(dtype, pattern.data() + i, numbers(random));
  }
  return pattern;
}

}  // namespace ridgepoint
