// Cross-entropy over the vocabulary and its gradient (src/ops/rules/cross_entropy.cpp); the kernels of cross_entropy.cu
// and cross_entropy_backward.cu.
//
// Logits in fp32, bf16 or fp16, in rows at any distance; losses and log-sum-exps in fp32. Other operands are dense; the
// gradient of the losses may have any strides. A target outside the vocabulary gives a NaN loss.
#include "backends/cuda/hand_written.h"

#include "backends/cuda/driver/kernel_launch.h"
#include "ops/rule.h"

namespace ridgepoint::cuda {
namespace {

int vocabulary_of(const TensorLayout& logits) {
  return checked_int(logits.shape[1], "the vocabulary of a cross-entropy");
}

unsigned rows_of(const TensorLayout& logits) {
  return static_cast<unsigned>(checked_int(logits.shape[0], "the number of rows of a cross-entropy"));
}

float z_loss_of(const KernelSpec& spec) { return static_cast<float>(spec.node.attributes.get_or(kZLoss, 0.0)); }

class CrossEntropyForward : public Kernel {
 public:
  CrossEntropyForward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : vocabulary_(vocabulary_of(spec.inputs[0])),
        logits_row_(row_strides(spec.inputs[0])->row),
        z_loss_(z_loss_of(spec)),
        kernel_(context, variant.image, variant.entry,
                {.grid_x = rows_of(spec.inputs[0]), .block_x = static_cast<unsigned>(variant.tiling.threads)}) {}

  std::string_view name() const override { return kernel_.name; }

  void launch(const LaunchArguments& arguments) override {
    if (kernel_.is_empty()) return;
    kernel_.launch(arguments.inputs[0], arguments.inputs[1], arguments.outputs[0], arguments.outputs[1], vocabulary_,
                   logits_row_, z_loss_);
  }

 private:
  int vocabulary_;
  std::int64_t logits_row_;
  float z_loss_;
  Launchable kernel_;
};

class CrossEntropyBackward : public Kernel {
 public:
  CrossEntropyBackward(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : vocabulary_(vocabulary_of(spec.inputs[1])),
        logits_row_(row_strides(spec.inputs[1])->row),
        output_row_(row_strides(spec.outputs[0])->row),
        z_loss_(z_loss_of(spec)),
        gradient_stride_(spec.inputs[0].strides[0]),
        every_gradient_(static_cast<float>(spec.inputs[0].immediate.value_or(0.0))),
        kernel_(context, variant.image, variant.entry,
                {.grid_x = rows_of(spec.inputs[1]),
                 .grid_y = checked_grid_y(vocabulary_, variant.tiling.columns, "the vocabulary of a cross-entropy"),
                 .block_x = static_cast<unsigned>(variant.tiling.threads)}) {}

  std::string_view name() const override { return kernel_.name; }

  void launch(const LaunchArguments& arguments) override {
    if (kernel_.is_empty()) return;
    void* const* in = arguments.inputs;
    kernel_.launch(in[0], in[1], in[2], in[3], arguments.outputs[0], gradient_stride_, every_gradient_, vocabulary_,
                   logits_row_, output_row_, z_loss_);
  }

 private:
  int vocabulary_;
  std::int64_t logits_row_;
  std::int64_t output_row_;
  float z_loss_;
  std::int64_t gradient_stride_;
  float every_gradient_;  // the value if the gradient is an immediate
  Launchable kernel_;
};

OperandLayout forward_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  return index == 0 ? OperandLayout::rows : OperandLayout::dense;
}

OperandLayout backward_layout(const Graph& /*graph*/, const Node& /*node*/, int index) {
  if (index == 0) return OperandLayout::any;  // the gradient of the losses
  return index == 1 ? OperandLayout::rows : OperandLayout::dense;
}

// A block computes a row of logits.
constexpr KernelVariant forward_variant(DType dtype, const char* entry) {
  return {.op = Op::cross_entropy,
          .dtype = dtype,
          .tiling = {.threads = 256},
          .image = "cross_entropy",
          .entry = entry,
          .layout = forward_layout,
          .make = make_variant<CrossEntropyForward>};
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
          .padded_rows = true,
          .make = make_variant<CrossEntropyBackward>};
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
