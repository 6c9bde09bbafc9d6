// The host side of attention_forward_wgmma.cu and attention_backward_wgmma.cu: flash attention on Hopper.
#include <algorithm>
#include <array>
#include <numbers>
#include <vector>

#include "backends/cuda/driver/tensor_map.h"
#include "backends/cuda/kernels/attention/hopper_variants.h"
#include "backends/cuda/kernels/attention/host.h"

namespace ridgepoint::cuda {
namespace {

constexpr int kPanelColumns = 64;

// An operand and its map, which is made again when its address changes; the context must be current then.
class MappedOperand {
 public:
  MappedOperand() = default;
  // Boxes have `rows` rows of 64 columns.
  MappedOperand(const TensorLayout& layout, int rows, Divisor group = {}) : group_(group) {
    const RowStrides strides = row_strides(layout).value();
    const Shape& shape = layout.shape;
    const std::int64_t inner = shape.rank() > 2 ? shape[-3] : 1;
    std::int64_t outer = 1;
    for (int axis = 0; axis < shape.rank() - 3; ++axis) outer *= shape[axis];
    repeats_inner_ = strides.inner == 0;
    repeats_outer_ = strides.outer == 0;
    shape_ = {.dtype = layout.dtype,
              .sizes = {shape[-1], shape[-2], repeats_inner_ ? 1 : inner, repeats_outer_ ? 1 : outer},
              .strides = {strides.row, strides.inner, strides.outer},
              .box = {kPanelColumns, static_cast<std::uint32_t>(rows), 1, 1}};
  }

  bool has_map() const { return has_tensor_map(shape_); }

  void map(const void* data, AttentionMap& to) {
    if (data == data_) return;
    to.map = make_tensor_map(shape_, data);
    to.group = group_;
    to.inner = repeats_inner_ ? 0 : 1;
    to.outer = repeats_outer_ ? 0 : 1;
    data_ = data;
  }

 private:
  TensorMapShape shape_;
  Divisor group_;
  bool repeats_inner_ = false, repeats_outer_ = false;
  const void* data_ = nullptr;
};

// A kernel with a window has no test for none.
int window_or_longest(int window, const AttentionSizes& sizes) {
  return window > 0 ? window : static_cast<int>(std::max(sizes.queries, sizes.keys));
}

// 2 log2(e) scale / cap, so that tanh(scale s / cap) = 1 - 2 / (1 + 2^(s times this)).
float tanh_scale(float scale, float soft_cap) {
  return soft_cap > 0 ? static_cast<float>(2 * std::numbers::log2e * scale / soft_cap) : 0;
}

class HopperAttention : public Kernel {
 public:
  HopperAttention(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant) : context_(context) {
    const AttentionSizes sizes = sizes_of(spec.inputs[0].shape, spec.inputs[1].shape);
    const HopperForwardTiling& tiling = tiling_of(kHopperForwardVariants, variant);
    set_sizes(parameters_, spec, sizes);
    parameters_.window = window_or_longest(parameters_.window, sizes);
    parameters_.tanh_scale = tanh_scale(parameters_.scale, parameters_.soft_cap);
    set_rows(parameters_.o, spec.outputs[0]);
    const std::int64_t blocks = ceil_divide(sizes.queries, tiling.rows);
    parameters_.blocks = Divisor(static_cast<std::uint32_t>(blocks));
    parameters_.tiles = static_cast<int>(blocks * sizes.batch);
    q_ = MappedOperand(spec.inputs[0], tiling.rows);
    const Divisor group = group_of(spec.inputs[0], spec.inputs[1]);
    k_ = MappedOperand(spec.inputs[1], tiling.keys, group);
    v_ = MappedOperand(spec.inputs[2], tiling.keys, group);
    kernel_ = {context.kernel(variant.image, variant.entry),
               variant.entry,
               {.grid_x = static_cast<unsigned>(std::min(parameters_.tiles, context.card().multiprocessors)),
                .block_x = static_cast<unsigned>(tiling.threads()),
                .shared_bytes = static_cast<unsigned>(tiling.forward_shared_bytes())}};
    context.allow_shared(kernel_.function, kernel_.shape.shared_bytes);
  }

  std::string_view name() const override { return kernel_.name; }

  void launch(const LaunchArguments& arguments) override {
    require_vectors({arguments.outputs[0]});
    const CudaContext::Scope scope(context_);
    q_.map(arguments.inputs[0], parameters_.q);
    k_.map(arguments.inputs[1], parameters_.k);
    v_.map(arguments.inputs[2], parameters_.v);
    parameters_.o.data = arguments.outputs[0];
    parameters_.log_sum_exp = static_cast<float*>(arguments.outputs[1]);
    void* pointers[] = {&parameters_};
    context_.launch(kernel_.function, kernel_.shape, pointers, kernel_.name);
  }

 private:
  CudaContext& context_;
  HopperAttentionForward parameters_;
  MappedOperand q_, k_, v_;
  Launchable kernel_;
};

// The workspace of the backward, as GradientWorkspace in attention.cpp.
struct Workspace {
  Workspace(const HopperBackwardTiling& tiling, const KernelSpec& spec) {
    const AttentionSizes sizes = sizes_of(spec.inputs[1].shape, spec.inputs[2].shape);
    blocks = ceil_divide(sizes.queries, tiling.rows);
    sum_bytes = static_cast<std::size_t>(sizes.batch * blocks * tiling.rows * tiling.padded_width()) * sizeof(float);
    product_bytes = static_cast<std::size_t>(sizes.batch * sizes.queries) * sizeof(float);
    semaphores = static_cast<std::size_t>(sizes.batch * blocks);
  }
  std::size_t bytes() const { return sum_bytes + product_bytes + (semaphores + 1) * sizeof(unsigned); }

  std::int64_t blocks = 0;  // of queries, in a matrix
  std::size_t sum_bytes, product_bytes, semaphores;
};

// Three launches, as those of AttentionGradient in attention.cpp.
class HopperAttentionGradient : public Kernel {
 public:
  HopperAttentionGradient(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : context_(context), tiling_(tiling_of(kHopperBackwardVariants, variant)), workspace_(tiling_, spec) {
    const AttentionSizes sizes = sizes_of(spec.inputs[1].shape, spec.inputs[2].shape);
    AttentionBackward& rest = parameters_.rest;
    set_sizes(rest, spec, sizes);
    rest.window = window_or_longest(rest.window, sizes);
    parameters_.tanh_scale = tanh_scale(rest.scale, rest.soft_cap);
    rest.batch = static_cast<int>(sizes.batch);
    set_rows(rest.d_o, spec.inputs[0]);
    set_rows(rest.o, spec.inputs[4]);
    set_rows(rest.dq, spec.outputs[0]);
    const Divisor group = group_of(spec.inputs[1], spec.inputs[2]);
    const bool sums = sums_key_gradients(spec.node);
    set_rows(rest.dk, spec.outputs[1], sums ? group : Divisor());
    set_rows(rest.dv, spec.outputs[2], sums ? group : Divisor());
    rest.summed_heads = sums ? static_cast<int>(heads_per_key_head(spec.inputs[1].shape, spec.inputs[2].shape)) : 1;
    d_o_ = MappedOperand(spec.inputs[0], tiling_.rows);
    q_ = MappedOperand(spec.inputs[1], tiling_.rows);
    k_ = MappedOperand(spec.inputs[2], HopperBackwardTiling::kKeys, group);
    v_ = MappedOperand(spec.inputs[3], HopperBackwardTiling::kKeys, group);
    query_blocks_ = static_cast<int>(workspace_.blocks);

    constexpr int kRowsToPrepare = 32;  // for each block, as in attention_products.cuh
    prepare_ = stage(variant, variant.prepare_entry, ceil_divide(sizes.batch * sizes.queries, kRowsToPrepare),
                     8 * kRowsToPrepare);
    const std::int64_t key_blocks =
        ceil_divide(sizes.keys, HopperBackwardTiling::kKeys) * (sizes.batch / rest.summed_heads);
    differentiate_ = stage(variant, variant.entry, std::min<std::int64_t>(key_blocks, context.card().multiprocessors),
                           tiling_.threads());
    differentiate_.shape.shared_bytes = static_cast<unsigned>(tiling_.backward_shared_bytes());
    context.allow_shared(differentiate_.function, differentiate_.shape.shared_bytes);
    finish_ =
        stage(variant, variant.finish_entry, workspace_.blocks * sizes.batch, HopperBackwardTiling::kGroups * 128);
  }

  std::string_view name() const override { return differentiate_.name; }
  std::size_t workspace_bytes() const override { return workspace_.bytes(); }

  void launch(const LaunchArguments& arguments) override {
    AttentionBackward& rest = parameters_.rest;
    require_vectors(
        {arguments.inputs[0], arguments.inputs[4], arguments.outputs[0], arguments.outputs[1], arguments.outputs[2]});
    const CudaContext::Scope scope(context_);
    d_o_.map(arguments.inputs[0], parameters_.d_o);
    q_.map(arguments.inputs[1], parameters_.q);
    k_.map(arguments.inputs[2], parameters_.k);
    v_.map(arguments.inputs[3], parameters_.v);
    rest.d_o.data = arguments.inputs[0];
    rest.o.data = arguments.inputs[4];
    rest.log_sum_exp = static_cast<const float*>(arguments.inputs[kLogSumExpOperand]);
    rest.dq.data = arguments.outputs[0];
    rest.dk.data = arguments.outputs[1];
    rest.dv.data = arguments.outputs[2];
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    rest.dq_sums = reinterpret_cast<float*>(workspace);
    rest.products = reinterpret_cast<float*>(workspace + workspace_.sum_bytes);
    rest.semaphores = reinterpret_cast<unsigned*>(workspace + workspace_.sum_bytes + workspace_.product_bytes);
    rest.started = rest.semaphores + workspace_.semaphores;
    void* prepared[] = {&rest, &query_blocks_};
    context_.launch(prepare_.function, prepare_.shape, prepared, prepare_.name);
    void* differentiated[] = {&parameters_};
    context_.launch(differentiate_.function, differentiate_.shape, differentiated, differentiate_.name);
    void* finished[] = {&rest};
    context_.launch(finish_.function, finish_.shape, finished, finish_.name);
  }

 private:
  Launchable stage(const KernelVariant& variant, const char* entry, std::int64_t blocks, int threads) const {
    return {context_.kernel(variant.image, entry),
            entry,
            {.grid_x = static_cast<unsigned>(blocks), .block_x = static_cast<unsigned>(threads)}};
  }

  CudaContext& context_;
  HopperBackwardTiling tiling_;
  Workspace workspace_;
  HopperAttentionBackward parameters_;
  MappedOperand d_o_, q_, k_, v_;
  int query_blocks_ = 0;
  Launchable prepare_, differentiate_, finish_;
};

}  // namespace

// Operands are q, k and v, or in the backward the gradient of o, q, k and v.
bool takes_hopper_operands(const KernelSpec& spec) {
  const std::size_t operands = spec.node.op == Op::attention ? 3 : 4;
  for (std::size_t i = 0; i < operands; ++i) {
    if (!row_strides(spec.inputs[i]) || !MappedOperand(spec.inputs[i], 1).has_map()) return false;
  }
  const std::size_t k = operands - 2;
  return spec.inputs[k].shape[-2] > 0;
}

bool has_scores_of(const KernelVariant& variant, const AttentionForm& form, std::int64_t keys) {
  const HopperScores scores = variant.op == Op::attention ? tiling_of(kHopperForwardVariants, variant).scores
                                                          : tiling_of(kHopperBackwardVariants, variant).scores;
  if (form.soft_cap > 0) return scores == HopperScores::soft_cap;
  return scores == (hiding_window(form, keys) > 0 ? HopperScores::window : HopperScores::plain);
}

std::size_t hopper_workspace_bytes(const KernelVariant& variant, const KernelSpec& spec) {
  return Workspace(tiling_of(kHopperBackwardVariants, variant), spec).bytes();
}

std::unique_ptr<Kernel> make_hopper_forward(CudaContext& context, const KernelSpec& spec,
                                            const KernelVariant& variant) {
  return std::make_unique<HopperAttention>(context, spec, variant);
}

std::unique_ptr<Kernel> make_hopper_backward(CudaContext& context, const KernelSpec& spec,
                                             const KernelVariant& variant) {
  return std::make_unique<HopperAttentionGradient>(context, spec, variant);
}

}  // namespace ridgepoint::cuda
