// a [...,M,K] x b [...,K,N] (+ c) -> [...,M,N] with any strides; sums in double in the order of k. Each matrix b is
// first copied to dense doubles, and each output row is a sum of multiples of rows of b, so that the inner loop reads
// contiguous memory for any strides.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "backends/reference/element_runs.h"
#include "backends/reference/kernels.h"
#include "backends/reference/loop_nest.h"
#include "runtime/matmul_problem.h"

namespace ridgepoint::reference {
namespace {

// A loop over the batch dimensions of a, b, the output and c.
LoopNest batch_loops(const KernelSpec& spec) {
  const auto lead = static_cast<std::size_t>(spec.outputs[0].shape.rank() - 2);
  std::array<Strides, 4> strides{};
  const std::array operands{&spec.inputs[0], &spec.inputs[1], &spec.outputs[0], &spec.inputs.back()};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]->immediate) std::copy_n(operands[i]->strides.begin(), lead, strides[i].begin());
  }
  return LoopNest(Shape(spec.outputs[0].shape.dims().first(lead)), strides);
}

// Rounds fp32 values to 10 bits of mantissa, to nearest even, as TF32 tensor cores do.
void round_to_tf32(double* values, std::int64_t count) {
  constexpr std::uint32_t kDropped = (1U << 13) - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) continue;
    auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(values[i]));
    bits += kDropped / 2 + ((bits >> 13) & 1);
    values[i] = std::bit_cast<float>(bits & ~kDropped);
  }
}

class MatmulKernel : public ReferenceKernel {
 public:
  explicit MatmulKernel(const KernelSpec& spec)
      : ReferenceKernel(spec),
        a_(spec.inputs[0]),
        b_(spec.inputs[1]),
        output_(spec.outputs[0]),
        c_(spec.inputs.back()),
        m_(output_.shape[-2]),
        n_(output_.shape[-1]),
        k_(a_.shape[-1]),
        tf32_(is_tf32(spec.node)),
        adds_(spec.node.op == Op::matmul_add),
        batches_(batch_loops(spec)) {}

  // The workspace holds b, one row of a and one row of the output in double.
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(k_ * n_ + k_ + n_) * sizeof(double); }

  void launch(const LaunchArguments& arguments) override {
    batches_.for_each_run([&](const Offsets& offsets, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        multiply(arguments, offsets[0] + i * batches_.run_stride(0), offsets[1] + i * batches_.run_stride(1),
                 offsets[2] + i * batches_.run_stride(2), offsets[3] + i * batches_.run_stride(3));
      }
    });
  }

 private:
  void multiply(const LaunchArguments& arguments, std::int64_t a_offset, std::int64_t b_offset,
                std::int64_t output_offset, std::int64_t c_offset) const {
    auto* b_dense = static_cast<double*>(arguments.workspace);
    double* a_row = b_dense + k_ * n_;
    double* sums = a_row + k_;
    for (std::int64_t k = 0; k < k_; ++k) {
      load_run(b_, arguments.inputs[1], b_offset + k * stride_of(b_, -2), stride_of(b_, -1), n_, b_dense + k * n_);
    }
    if (tf32_) round_to_tf32(b_dense, k_ * n_);
    for (std::int64_t m = 0; m < m_; ++m) {
      load_run(a_, arguments.inputs[0], a_offset + m * stride_of(a_, -2), stride_of(a_, -1), k_, a_row);
      if (tf32_) round_to_tf32(a_row, k_);
      std::fill_n(sums, n_, 0.0);
      if (adds_) load_run(c_, arguments.inputs[2], c_offset + m * stride_of(c_, -2), stride_of(c_, -1), n_, sums);
      for (std::int64_t k = 0; k < k_; ++k) {
        const double factor = a_row[k];
        const double* b_row = b_dense + k * n_;
        for (std::int64_t n = 0; n < n_; ++n) sums[n] += factor * b_row[n];
      }
      store_run(output_.dtype, arguments.outputs[0], output_offset + m * stride_of(output_, -2), stride_of(output_, -1),
                n_, sums);
    }
  }

  TensorLayout a_;
  TensorLayout b_;
  TensorLayout output_;
  TensorLayout c_;
  std::int64_t m_;
  std::int64_t n_;
  std::int64_t k_;
  bool tf32_;
  bool adds_;
  LoopNest batches_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul(const KernelSpec& spec) { return std::make_unique<MatmulKernel>(spec); }

}  // namespace ridgepoint::reference
