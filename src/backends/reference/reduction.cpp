// reduce_sum and reduce_max over any axes. The input is read once, in its own order. Each output element has a double
// in the workspace, which the loop addresses as an operand with stride 0 along the reduced axes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/reference/element_runs.h"
#include "backends/reference/reference_device.h"

namespace ridgepoint::reference {
namespace {

struct Sum {
  static constexpr double kIdentity = 0.0;
  double operator()(double total, double x) const { return total + x; }
};
struct Max {  // NaN if any element is NaN
  static constexpr double kIdentity = -std::numeric_limits<double>::infinity();
  double operator()(double largest, double x) const { return largest > x || std::isnan(largest) ? largest : x; }
};

// Operand 0 is the input, operand 1 the accumulators.
LoopNest reduction_loops(const KernelSpec& spec) {
  const Shape& shape = spec.inputs[0].shape;
  std::array<bool, kMaxRank> reduced{};
  for (const std::int64_t axis : spec.node.attributes.get<std::vector<std::int64_t>>("axes"))
    reduced[static_cast<std::size_t>(normalise_axis(axis, shape.rank()))] = true;
  Strides accumulators{};
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (reduced[i]) continue;
    accumulators[i] = stride;
    stride *= shape[axis];
  }
  return LoopNest(shape, std::array{broadcast_strides(spec.inputs[0], shape), accumulators});
}

template <typename Combine>
class ReductionKernel : public ReferenceKernel {
 public:
  explicit ReductionKernel(const KernelSpec& spec)
      : ReferenceKernel(spec),
        input_(spec.inputs[0]),
        output_dtype_(spec.outputs[0].dtype),
        output_elements_(spec.outputs[0].shape.elements()),
        loops_(reduction_loops(spec)) {}

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(output_elements_) * sizeof(double); }

  void launch(const LaunchArguments& arguments) override {
    auto* accumulators = static_cast<double*>(arguments.workspace);
    std::fill_n(accumulators, output_elements_, Combine::kIdentity);
    loops_.for_each_run([&](const Offsets& offsets, std::int64_t count) {
      load_run(input_, arguments.inputs[0], offsets[0], loops_.run_stride(0), count, run_.data());
      fold(count, accumulators + offsets[1], loops_.run_stride(1));
    });
    store_run(output_dtype_, arguments.outputs[0], 0, 1, output_elements_, accumulators);
  }

 private:
  void fold(std::int64_t count, double* accumulator, std::int64_t stride) const {
    const auto n = static_cast<std::size_t>(count);
    if (stride == 0) {
      double total = *accumulator;
      for (std::size_t i = 0; i < n; ++i) total = Combine{}(total, run_[i]);
      *accumulator = total;
    } else {
      for (std::size_t i = 0; i < n; ++i, accumulator += stride) *accumulator = Combine{}(*accumulator, run_[i]);
    }
  }

  TensorLayout input_;
  DType output_dtype_;
  std::int64_t output_elements_;
  LoopNest loops_;
  std::array<double, kRunElements> run_{};
};

}  // namespace

std::unique_ptr<Kernel> make_reduction(const KernelSpec& spec) {
  if (spec.node.op == Op::reduce_max) return std::make_unique<ReductionKernel<Max>>(spec);
  return std::make_unique<ReductionKernel<Sum>>(spec);
}

}  // namespace ridgepoint::reference
