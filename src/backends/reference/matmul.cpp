// a [...,M,K] x b [...,K,N] (+ c) -> [...,M,N] with any strides; sums in double in the order of k. Each matrix b is
// first copied to dense doubles, and each output row is a sum of multiples of rows of b, so that the inner loop reads
// contiguous memory for any strides. A product in fp8 rounds both matrices to codes of 8 bits first.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "backends/reference/element_runs.h"
#include "backends/reference/reference_device.h"
#include "core/types/float8.h"
#include "ops/float8_product.h"
#include "runtime/device/matmul_problem.h"

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

// Replaces the values of a matrix by the numbers of their codes of 8 bits, as ops/rules/quantise.cpp does.
class Float8Rounding {
 public:
  Float8Rounding() = default;
  Float8Rounding(DType codes, double largest_magnitude)
      : codes_(codes),
        magnitude_(std::isnan(largest_magnitude) ? largest_magnitude
                                                 : std::max(largest_magnitude, kLeastFloat8Magnitude)) {}

  float scale() const { return static_cast<float>(magnitude_ / largest()); }
  void round(double* values, std::int64_t count) const {
    const double factor = static_cast<float>(largest() / magnitude_);
    for (std::int64_t i = 0; i < count; ++i) {
      const double scaled = static_cast<float>(values[i] * factor);
      values[i] = static_cast<double>(float8_values(codes_)[float8_code(codes_, scaled)]);
    }
  }

 private:
  double largest() const { return static_cast<double>(float8_format(codes_).largest); }
  DType codes_ = DType::e4m3;
  double magnitude_ = 0;
};

// NaN if any value is NaN.
double largest_magnitude(const double* values, std::int64_t count, double so_far) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double magnitude = std::fabs(values[i]);
    if (magnitude > so_far || std::isnan(magnitude)) so_far = magnitude;
  }
  return so_far;
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
        codes_(float8_operands(spec.node.attributes)),
        adds_(spec.node.op == Op::matmul_add),
        batches_(batch_loops(spec)) {}

  // The workspace holds b, one row of a, one of the output and one of the addend in double.
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(k_ * n_ + k_ + 2 * n_) * sizeof(double);
  }

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
    double* addends = sums + n_;
    for (std::int64_t k = 0; k < k_; ++k)
      load_run(b_, arguments.inputs[1], b_offset + k * stride_of(b_, -2), stride_of(b_, -1), n_, b_dense + k * n_);
    const auto load_row = [&](std::int64_t m) {
      load_run(a_, arguments.inputs[0], a_offset + m * stride_of(a_, -2), stride_of(a_, -1), k_, a_row);
    };
    if (tf32_) round_to_tf32(b_dense, k_ * n_);
    const Float8Rounding rounding = codes_ ? rounding_of_a(load_row, a_row) : Float8Rounding();
    const float scale = codes_ ? rounding.scale() * round_to_float8(b_dense) : 1;
    for (std::int64_t m = 0; m < m_; ++m) {
      load_row(m);
      if (tf32_) round_to_tf32(a_row, k_);
      if (codes_) rounding.round(a_row, k_);
      std::fill_n(addends, n_, 0.0);
      if (adds_) load_run(c_, arguments.inputs[2], c_offset + m * stride_of(c_, -2), stride_of(c_, -1), n_, addends);
      codes_ ? std::fill_n(sums, n_, 0.0) : std::copy_n(addends, n_, sums);
      for (std::int64_t k = 0; k < k_; ++k) {
        const double factor = a_row[k];
        const double* b_row = b_dense + k * n_;
        for (std::int64_t n = 0; n < n_; ++n) sums[n] += factor * b_row[n];
      }
      for (std::int64_t n = 0; codes_ && n < n_; ++n)
        sums[n] = static_cast<float>(sums[n]) * scale + static_cast<float>(addends[n]);
      store_run(output_.dtype, arguments.outputs[0], output_offset + m * stride_of(output_, -2), stride_of(output_, -1),
                n_, sums);
    }
  }

  template <typename LoadRow>
  Float8Rounding rounding_of_a(LoadRow load_row, const double* row) const {
    double largest = 0;
    for (std::int64_t m = 0; m < m_; ++m) {
      load_row(m);
      largest = largest_magnitude(row, k_, largest);
    }
    return Float8Rounding(codes_->left, largest);
  }

  // Returns the scale of b.
  float round_to_float8(double* b_dense) const {
    const Float8Rounding rounding(codes_->right, largest_magnitude(b_dense, k_ * n_, 0));
    rounding.round(b_dense, k_ * n_);
    return rounding.scale();
  }

  TensorLayout a_;
  TensorLayout b_;
  TensorLayout output_;
  TensorLayout c_;
  std::int64_t m_;
  std::int64_t n_;
  std::int64_t k_;
  bool tf32_;
  std::optional<Float8Operands> codes_;
  bool adds_;
  LoopNest batches_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul(const KernelSpec& spec) { return std::make_unique<MatmulKernel>(spec); }

}  // namespace ridgepoint::reference
