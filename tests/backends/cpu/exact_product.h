// Matrix products in double, and how far the product of a kernel may be from them.
#pragma once

#include <cmath>

#include "backends/cpu/kernel_harness.h"

namespace ridgepoint::testing {

struct ExactProduct {
  double value = 0;
  double magnitude = 0;  // the sum of absolute products: rounding errors are relative to it
};

inline ExactProduct product_at(const Operand& a, const Operand& b, const std::vector<std::int64_t>& index) {
  std::vector<std::int64_t> a_index = index, b_index = index;
  ExactProduct exact;
  for (std::int64_t k = 0; k < a.layout.shape[-1]; ++k) {
    a_index.back() = k;
    b_index[index.size() - 2] = k;
    const double product = a.at(a_index) * b.at(b_index);
    exact.value += product;
    exact.magnitude += std::fabs(product);
  }
  return exact;
}

// Half a unit in the last place of one operation.
inline double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::fp64: return 0x1p-53;
    case DType::bf16: return 0x1p-8;
    case DType::fp16: return 0x1p-11;
    default: return 0x1p-24;
  }
}

// Each element must be within the rounding of a sum of k products in fp32 (fp64 for fp64), in any order. TF32 would be
// off by a thousand times that.
template <class Run>
void expect_product(const Run& run) {
  const Operand& a = run.operand(0);
  const Operand& b = run.operand(1);
  const double sum_rounding = rounding_of(a.layout.dtype == DType::fp64 ? DType::fp64 : DType::fp32);
  const double terms = static_cast<double>(a.layout.shape[-1]) + 1;
  for (std::int64_t i = 0; i < run.output.type.elements(); ++i) {
    const ExactProduct exact = product_at(a, b, unravel(run.output.type.shape, i));
    const double tolerance =
        terms * sum_rounding * exact.magnitude + rounding_of(a.layout.dtype) * std::fabs(exact.value);
    ASSERT_NEAR(run.at(i), exact.value, 1.01 * tolerance)
        << "element " << i << " of " << a.type().to_string() << " x " << b.type().to_string();
  }
}

}  // namespace ridgepoint::testing
