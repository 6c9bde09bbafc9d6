#include "backends/mpi/low_sums.h"

#include "ridgepoint/tensor.h"

namespace ridgepoint {
namespace {

// The sum of two values of a 16-bit type is exact in double, so that it is rounded once.
void add(DType dtype, const void* operand, void* sum, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(operand);
  auto* to = static_cast<std::byte*>(sum);
  for (std::size_t i = 0; i < 2 * count; i += 2)
    store_element(dtype, to + i, load_element(dtype, to + i) + load_element(dtype, from + i));
}

}  // namespace

void add_bf16(const void* operand, void* sum, std::size_t count) { add(DType::bf16, operand, sum, count); }
void add_fp16(const void* operand, void* sum, std::size_t count) { add(DType::fp16, operand, sum, count); }

}  // namespace ridgepoint
