#include "backends/cpu/matmul/one_thread.h"

#include <dnnl.h>

#include <algorithm>

#include "backends/cpu/matmul/onednn.h"
#include "core/text/throw_error.h"

namespace ridgepoint::cpu {

template <>
void multiply(const ProductSizes& sizes, Factor<float> a, Factor<float> b, float* c, std::int64_t stride, bool adds) {
  if (sizes.inner == 0) {
    for (std::int64_t i = 0; i < sizes.rows && !adds; ++i) std::fill_n(c + i * stride, sizes.columns, 0.0F);
    return;
  }
  const OneThread one_thread;
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', sizes.rows, sizes.columns, sizes.inner, 1.0F,
                 a.first, a.stride, b.first, b.stride, adds ? 1.0F : 0.0F, c, stride);
  if (status == dnnl_success) return;
  throw_error("oneDNN failed at a {} x {} x {} matrix product (status {})", sizes.rows, sizes.columns, sizes.inner,
              static_cast<int>(status));
}

template <>
void multiply(const ProductSizes& sizes, Factor<double> a, Factor<double> b, double* c, std::int64_t stride,
              bool adds) {
  for (std::int64_t i = 0; i < sizes.rows; ++i) {
    for (std::int64_t j = 0; j < sizes.columns; ++j) {
      double sum = adds ? c[i * stride + j] : 0;
      for (std::int64_t k = 0; k < sizes.inner; ++k)
        sum += a.first[a.transposed ? k * a.stride + i : i * a.stride + k] *
               b.first[b.transposed ? j * b.stride + k : k * b.stride + j];
      c[i * stride + j] = sum;
    }
  }
}

}  // namespace ridgepoint::cpu
