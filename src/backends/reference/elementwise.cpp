// Elementwise ops: each kernel loads a run of every operand, applies the op's formula and stores the run. Runs hold
// doubles, or 64-bit integers where the op moves, compares or converts integers. An output may share memory with an
// input of the same layout: a whole run is loaded before it is stored.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "backends/reference/element_runs.h"
#include "backends/reference/reference_device.h"
#include "core/types/halves.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::reference {
namespace {

template <typename T>
using Run = std::array<T, kRunElements>;
template <typename T>
using RunFunction = void (*)(const std::array<Run<T>, 3>& inputs, std::int64_t count, Run<T>& output);

// These make a function on runs of a formula on elements.
template <typename T = double, typename Formula>
RunFunction<T> unary(Formula) {
  return [](const std::array<Run<T>, 3>& in, std::int64_t count, Run<T>& out) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) out[i] = Formula{}(in[0][i]);
  };
}
template <typename T = double, typename Formula>
RunFunction<T> binary(Formula) {
  return [](const std::array<Run<T>, 3>& in, std::int64_t count, Run<T>& out) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) out[i] = Formula{}(in[0][i], in[1][i]);
  };
}
template <typename T = double, typename Formula>
RunFunction<T> ternary(Formula) {
  return [](const std::array<Run<T>, 3>& in, std::int64_t count, Run<T>& out) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) out[i] = Formula{}(in[0][i], in[1][i], in[2][i]);
  };
}

template <typename T>
using Functions = std::vector<std::pair<Op, RunFunction<T>>>;

// Null where the table lacks the op.
template <typename T>
RunFunction<T> find(Op op, const Functions<T>& functions) {
  const auto found = std::ranges::find(functions, op, &Functions<T>::value_type::first);
  return found == functions.end() ? nullptr : found->second;
}

// The ops that doubles and integers share.
template <typename T>
RunFunction<T> shared_function(Op op) {
  const RunFunction<T> same = unary<T>([](T x) { return x; });
  return find(op, Functions<T>{{Op::copy, same},
                               {Op::cast, same},
                               {Op::detach, same},
                               {Op::equal, binary<T>([](T a, T b) { return static_cast<T>(a == b); })},
                               {Op::less, binary<T>([](T a, T b) { return static_cast<T>(a < b); })},
                               {Op::less_equal, binary<T>([](T a, T b) { return static_cast<T>(a <= b); })},
                               {Op::where, ternary<T>([](T condition, T a, T b) { return condition != 0 ? a : b; })}});
}

// Each branch exponentiates a number that is not positive, so neither overflows.
double sigmoid(double x) {
  if (x >= 0.0) return 1.0 / (1.0 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1.0 + e);
}

std::uint32_t fp32_bits(double x) { return std::bit_cast<std::uint32_t>(static_cast<float>(x)); }
double of_fp32_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

double round_away(double x) {
  return of_fp32_bits(static_cast<std::uint32_t>(round_away_to_bf16(fp32_bits(x))) << 16U);
}
double join(double rounded, double low) {
  return of_fp32_bits(join_halves(static_cast<std::uint16_t>(fp32_bits(rounded) >> 16U), low_half_of(fp32_bits(low))));
}

RunFunction<double> double_function(Op op) {
  return find(op, Functions<double>{
                      {Op::neg, unary([](double x) { return -x; })},
                      {Op::exp, unary([](double x) { return std::exp(x); })},
                      {Op::expm1, unary([](double x) { return std::expm1(x); })},
                      {Op::log, unary([](double x) { return std::log(x); })},
                      {Op::sqrt, unary([](double x) { return std::sqrt(x); })},
                      {Op::rsqrt, unary([](double x) { return 1.0 / std::sqrt(x); })},
                      {Op::sigmoid, unary([](double x) { return sigmoid(x); })},
                      {Op::tanh, unary([](double x) { return std::tanh(x); })},
                      {Op::erf, unary([](double x) { return std::erf(x); })},
                      {Op::round_away, unary([](double x) { return round_away(x); })},
                      {Op::join_halves, binary([](double a, double b) { return join(a, b); })},
                      {Op::add, binary([](double a, double b) { return a + b; })},
                      {Op::sub, binary([](double a, double b) { return a - b; })},
                      {Op::mul, binary([](double a, double b) { return a * b; })},
                      {Op::div, binary([](double a, double b) { return a / b; })},
                      // NaN if either operand is, as in PyTorch
                      {Op::maximum, binary([](double a, double b) { return a > b || std::isnan(a) ? a : b; })},
                      {Op::minimum, binary([](double a, double b) { return a < b || std::isnan(a) ? a : b; })},
                  });
}

template <typename T>
RunFunction<T> run_function(Op op) {
  if (const RunFunction<T> found = shared_function<T>(op)) return found;
  if constexpr (std::is_same_v<T, double>) {
    if (const RunFunction<double> found = double_function(op)) return found;
  }
  throw Error("the reference device has no formula for the elementwise op '" + std::string(name(op)) + "'",
              ErrorKind::unsupported);
}

// Operand 0 is the output, the inputs follow.
LoopNest elementwise_loops(const KernelSpec& spec) {
  const Shape& shape = spec.outputs[0].shape;
  std::array<Strides, kMaxOperands> strides{spec.outputs[0].strides};
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) strides[i + 1] = broadcast_strides(spec.inputs[i], shape);
  return LoopNest(shape, std::span(strides).first(spec.inputs.size() + 1));
}

template <typename T>
class ElementwiseKernel : public ReferenceKernel {
 public:
  explicit ElementwiseKernel(const KernelSpec& spec)
      : ReferenceKernel(spec),
        function_(run_function<T>(spec.node.op)),
        inputs_(spec.inputs.begin(), spec.inputs.end()),
        output_dtype_(spec.outputs[0].dtype),
        loops_(elementwise_loops(spec)) {}

  void launch(const LaunchArguments& arguments) override {
    loops_.for_each_run([&](const Offsets& offsets, std::int64_t count) {
      for (std::size_t i = 0; i < inputs_.size(); ++i)
        load_run(inputs_[i], arguments.inputs[i], offsets[i + 1], loops_.run_stride(i + 1), count, runs_[i].data());
      function_(runs_, count, result_);
      store_run(output_dtype_, arguments.outputs[0], offsets[0], loops_.run_stride(0), count, result_.data());
    });
  }

 private:
  RunFunction<T> function_;
  std::vector<TensorLayout> inputs_;
  DType output_dtype_;
  LoopNest loops_;
  std::array<Run<T>, 3> runs_{};
  Run<T> result_{};
};

// Whether the op computes on integers; the first operand of `where` is a condition.
bool takes_integers(const KernelSpec& spec) {
  const std::size_t first = spec.node.op == Op::where ? 1 : 0;
  return is_integer(spec.inputs[first].dtype);
}

// The index along one axis is the offset of an operand with stride 1 along that axis and 0 along the others.
class IotaKernel : public ReferenceKernel {
 public:
  explicit IotaKernel(const KernelSpec& spec)
      : ReferenceKernel(spec), output_dtype_(spec.outputs[0].dtype), loops_(index_loops(spec)) {}

  void launch(const LaunchArguments& arguments) override {
    loops_.for_each_run([&](const Offsets& offsets, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        result_[static_cast<std::size_t>(i)] = static_cast<double>(offsets[1] + i * loops_.run_stride(1));
      store_run(output_dtype_, arguments.outputs[0], offsets[0], loops_.run_stride(0), count, result_.data());
    });
  }

 private:
  static LoopNest index_loops(const KernelSpec& spec) {
    const Shape& shape = spec.outputs[0].shape;
    std::array<Strides, 2> strides{spec.outputs[0].strides};
    strides[1][static_cast<std::size_t>(normalise_axis(spec.node.attributes.get<std::int64_t>("axis"), shape.rank()))] =
        1;
    return LoopNest(shape, strides);
  }

  DType output_dtype_;
  LoopNest loops_;
  Run<double> result_{};
};

}  // namespace

std::unique_ptr<Kernel> make_elementwise(const KernelSpec& spec) {
  if (takes_integers(spec)) return std::make_unique<ElementwiseKernel<std::int64_t>>(spec);
  return std::make_unique<ElementwiseKernel<double>>(spec);
}
std::unique_ptr<Kernel> make_iota(const KernelSpec& spec) { return std::make_unique<IotaKernel>(spec); }

}  // namespace ridgepoint::reference
