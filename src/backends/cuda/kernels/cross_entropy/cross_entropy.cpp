// Cross-entropy over the vocabulary and its gradient (src/ops/rules/cross_entropy.cpp); the kernels of cross_entropy.cu
// and cross_entropy_backward.cu.
//
// fp32. Operands are dense; the gradient of the losses may have any strides. A target outside the vocabulary gives a
// NaN loss.
#include "backends/cuda/kernels/hand_written.h"

#include "backends/cuda/driver/kernel_launch.h"

namespace ridgepoint::cuda {
namespace {

// The kernels support fp32 only; the op's rule gives all floating operands the dtype of the logits.
void require_fp32(const KernelSpec& spec, std::initializer_list<std::size_t> operands) {
  for (const std::size_t i : operands) {
    const DType dtype = spec.inputs[i].dtype;
    if (dtype == DType::fp32) continue;
    throw Error(fmt::format("operand {} of {} is {}, but its CUDA kernel supports fp32 only; cast it", i,
                            name(spec.node.op), name(dtype)),
                ErrorKind::unsupported);
  }
}

int vocabulary_of(const TensorLayout& logits) {
  return checked_int(logits.shape[1], "the vocabulary of a cross-entropy");
}

class CrossEntropyForward : public Kernel {
 public:
  CrossEntropyForward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : context_(context), vocabulary_(vocabulary_of(spec.inputs[0])) {
    require_fp32(spec, {0});
    const int rows = checked_int(spec.inputs[0].shape[0], "the number of rows of a cross-entropy");
    kernel_ = {context.kernel(variant.image, variant.entry),
               variant.entry,
               {.grid_x = static_cast<unsigned>(rows), .block_x = static_cast<unsigned>(variant.tiling.threads)}};
  }

  std::string_view name() const override { return kernel_.name; }

  void launch(const LaunchArguments& arguments) override {
    if (kernel_.is_empty()) return;
    logits_ = arguments.inputs[0];
    targets_ = arguments.inputs[1];
    losses_ = arguments.outputs[0];
    log_sum_exps_ = arguments.outputs[1];
    context_.launch(kernel_.function, kernel_.shape, parameters_, kernel_.name);
  }

 private:
  CudaContext& context_;
  Launchable kernel_;
  int vocabulary_;
  const void* logits_ = nullptr;
  const void* targets_ = nullptr;
  void* losses_ = nullptr;
  void* log_sum_exps_ = nullptr;
  void* parameters_[5] = {&logits_, &targets_, &losses_, &log_sum_exps_, &vocabulary_};
};

class CrossEntropyBackward : public Kernel {
 public:
  CrossEntropyBackward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : context_(context),
        vocabulary_(vocabulary_of(spec.inputs[1])),
        gradient_stride_(spec.inputs[0].strides[0]),
        every_gradient_(static_cast<float>(spec.inputs[0].immediate.value_or(0.0))) {
    require_fp32(spec, {0, 1, 3});
    const int rows = checked_int(spec.inputs[1].shape[0], "the number of rows of a cross-entropy");
    kernel_ = {context.kernel(variant.image, variant.entry),
               variant.entry,
               {.grid_x = static_cast<unsigned>(rows),
                .grid_y = checked_grid_y(vocabulary_, variant.tiling.columns, "the vocabulary of a cross-entropy"),
                .block_x = static_cast<unsigned>(variant.tiling.threads)}};
  }

  std::string_view name() const override { return kernel_.name; }

  void launch(const LaunchArguments& arguments) override {
    if (kernel_.is_empty()) return;
    gradient_ = arguments.inputs[0];
    logits_ = arguments.inputs[1];
    targets_ = arguments.inputs[2];
    log_sum_exps_ = arguments.inputs[3];
    output_ = arguments.outputs[0];
    context_.launch(kernel_.function, kernel_.shape, parameters_, kernel_.name);
  }

 private:
  CudaContext& context_;
  Launchable kernel_;
  int vocabulary_;
  std::int64_t gradient_stride_;
  float every_gradient_;  // the value if the gradient is an immediate
  const void* gradient_ = nullptr;
  const void* logits_ = nullptr;
  const void* targets_ = nullptr;
  const void* log_sum_exps_ = nullptr;
  void* output_ = nullptr;
  void* parameters_[8] = {&gradient_, &logits_,          &targets_,        &log_sum_exps_,
                          &output_,   &gradient_stride_, &every_gradient_, &vocabulary_};
};

std::unique_ptr<Kernel> make_forward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) {
  return std::make_unique<CrossEntropyForward>(context, spec, variant);
}

std::unique_ptr<Kernel> make_backward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) {
  return std::make_unique<CrossEntropyBackward>(context, spec, variant);
}

OperandLayout backward_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  return index == 0 ? OperandLayout::any : OperandLayout::dense;  // the gradient of the losses
}

// A block computes a row of logits, or `columns` elements of a row in backward.
constexpr KernelVariant kVariants[] = {
    {.op = Op::cross_entropy,
     .dtype = DType::fp32,
     .tiling = {.threads = 256},
     .image = "cross_entropy/cross_entropy",
     .entry = "cross_entropy_forward_block_row",
     .make = make_forward},
    {.op = Op::cross_entropy_backward,
     .dtype = DType::fp32,
     .operand = 1,  // the logits
     .tiling = {.columns = 4096, .threads = 256},
     .image = "cross_entropy/cross_entropy_backward",
     .entry = "cross_entropy_backward_slices",
     .layout = backward_layout,
     .make = make_backward},
};

}  // namespace

std::span<const KernelVariant> cross_entropy_variants() { return kVariants; }

}  // namespace ridgepoint::cuda
