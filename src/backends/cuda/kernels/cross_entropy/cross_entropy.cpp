// Cross-entropy over the vocabulary and its gradient (src/ops/rules/cross_entropy.cpp); the kernels of cross_entropy.cu
// and cross_entropy_backward.cu.
//
// Logits in fp32, bf16 or fp16; losses and log-sum-exps in fp32. Operands are dense; the gradient of the losses may
// have any strides. A target outside the vocabulary gives a NaN loss.
#include "backends/cuda/hand_written.h"

#include "backends/cuda/driver/kernel_launch.h"

namespace ridgepoint::cuda {
namespace {

int vocabulary_of(const TensorLayout& logits) {
  return checked_int(logits.shape[1], "the vocabulary of a cross-entropy");
}

class CrossEntropyForward : public Kernel {
 public:
  CrossEntropyForward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : context_(context), vocabulary_(vocabulary_of(spec.inputs[0])) {
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

// A block computes a row of logits.
constexpr KernelVariant forward_variant(DType dtype, const char* entry) {
  return {.op = Op::cross_entropy,
          .dtype = dtype,
          .tiling = {.threads = 256},
          .image = "cross_entropy",
          .entry = entry,
          .make = make_forward};
}
// A block computes `columns` elements of a row.
constexpr KernelVariant backward_variant(DType dtype, const char* entry) {
  return {.op = Op::cross_entropy_backward,
          .dtype = dtype,
          .operand = 1,  // the logits
          .tiling = {.columns = 4096, .threads = 256},
          .image = "cross_entropy_backward",
          .entry = entry,
          .layout = backward_layout,
          .make = make_backward};
}
constexpr KernelVariant kVariants[] = {
    forward_variant(DType::fp32, "cross_entropy_forward_block_row_fp32"),
    forward_variant(DType::bf16, "cross_entropy_forward_block_row_bf16"),
    forward_variant(DType::fp16, "cross_entropy_forward_block_row_fp16"),
    backward_variant(DType::fp32, "cross_entropy_backward_slices_fp32"),
    backward_variant(DType::bf16, "cross_entropy_backward_slices_bf16"),
    backward_variant(DType::fp16, "cross_entropy_backward_slices_fp16"),
};

}  // namespace

std::span<const KernelVariant> cross_entropy_variants() { return kVariants; }

}  // namespace ridgepoint::cuda
