#include "backends/cuda/attention.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "backends/cuda/kernel_launch.h"
#include "backends/cuda/launch_parameters.h"

namespace ridgepoint::cuda {
namespace {

struct Sizes {
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;
};

Sizes sizes_of(const Shape& q, const Shape& k) {
  Sizes sizes{1, q[-2], k[-2], q[-1]};
  for (int axis = 0; axis < q.rank() - 2; ++axis) sizes.batch *= q[axis];
  return sizes;
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The narrowest that holds the head.
std::optional<AttentionTiling> tiling_for(Op op, std::int64_t width) {
  const auto& tilings = op == Op::attention ? kForwardTilings : kBackwardTilings;
  const auto* found = std::find_if(std::begin(tilings), std::end(tilings),
                                   [&](const AttentionTiling& tiling) { return width <= tiling.width; });
  return found == std::end(tilings) ? std::nullopt : std::optional(*found);
}

template <class Parameters>
void set_sizes(Parameters& parameters, const KernelSpec& spec, const Sizes& sizes) {
  parameters.queries = static_cast<int>(sizes.queries);
  parameters.keys = static_cast<int>(sizes.keys);
  parameters.width = static_cast<int>(sizes.width);
  parameters.scale = static_cast<float>(spec.node.attributes.get<double>("scale"));
  parameters.causal = spec.node.attributes.get<bool>("causal");
}

void require_vectors(std::initializer_list<const void*> operands) {
  if (are_vector_aligned(operands)) return;
  throw Error(
      "attention on a card reads vectors of 16 bytes, and an operand does not lie at a multiple of that; give it a "
      "tensor of its own instead of a part of another",
      ErrorKind::unsupported);
}

std::string function_name(std::string_view what, DType dtype, int width) {
  return fmt::format("{}_{}_{}", what, ridgepoint::name(dtype), width);
}

class Attention : public Kernel {
 public:
  Attention(CudaContext& context, const KernelSpec& spec) : context_(context) {
    const Sizes sizes = sizes_of(spec.inputs[0].shape, spec.inputs[1].shape);
    const AttentionTiling tiling = tiling_for(Op::attention, sizes.width).value();
    set_sizes(parameters_, spec, sizes);
    name_ = function_name("attention_forward_tiled", spec.inputs[0].dtype, tiling.width);
    function_ = context.kernel("attention_forward", name_.c_str());
    shape_.grid_x = static_cast<unsigned>(ceil_divide(sizes.queries, tiling.rows) * sizes.batch);
    shape_.block_x = static_cast<unsigned>(tiling.threads());
    shape_.shared_bytes = static_cast<unsigned>(tiling.forward_shared_bytes());
    context.allow_shared(function_, shape_.shared_bytes);
  }

  std::string_view name() const override { return name_; }

  void launch(const LaunchArguments& arguments) override {
    parameters_.q = arguments.inputs[0];
    parameters_.k = arguments.inputs[1];
    parameters_.v = arguments.inputs[2];
    parameters_.o = arguments.outputs[0];
    parameters_.log_sum_exp = static_cast<float*>(arguments.outputs[1]);
    require_vectors({parameters_.q, parameters_.k, parameters_.v, parameters_.o});
    void* pointers[] = {&parameters_};
    context_.launch(function_, shape_, pointers, name_.c_str());
  }

 private:
  CudaContext& context_;
  AttentionForward parameters_;
  std::string name_;
  CUfunction function_;
  LaunchShape shape_;
};

// Three launches: what each query needs, the gradients with q's as sums, and q's from those.
class AttentionGradient : public Kernel {
 public:
  AttentionGradient(CudaContext& context, const KernelSpec& spec) : context_(context) {
    const Sizes sizes = sizes_of(spec.inputs[1].shape, spec.inputs[2].shape);
    const AttentionTiling tiling = tiling_for(Op::attention_backward, sizes.width).value();
    const DType dtype = spec.inputs[1].dtype;
    set_sizes(parameters_, spec, sizes);
    parameters_.batch = static_cast<int>(sizes.batch);
    const std::int64_t query_blocks = ceil_divide(sizes.queries, tiling.rows);
    query_blocks_ = static_cast<int>(query_blocks);
    sum_bytes_ = static_cast<std::size_t>(sizes.batch * query_blocks * tiling.rows * tiling.width) * sizeof(float);
    product_bytes_ = static_cast<std::size_t>(sizes.batch * sizes.queries) * sizeof(float);
    turn_bytes_ = static_cast<std::size_t>(sizes.batch * query_blocks) * sizeof(unsigned);

    prepare_ = stage(fmt::format("attention_backward_prepare_{}", ridgepoint::name(dtype)), {});
    prepare_.shape.grid_x = block_count(sizes.batch * sizes.queries, kRowsToPrepare);
    prepare_.shape.block_x = 8 * kRowsToPrepare;
    differentiate_ = stage(function_name("attention_backward_tiled", dtype, tiling.width), tiling);
    differentiate_.shape.grid_x = static_cast<unsigned>(ceil_divide(sizes.keys, tiling.keys) * sizes.batch);
    differentiate_.shape.shared_bytes = static_cast<unsigned>(tiling.backward_shared_bytes());
    context.allow_shared(differentiate_.function, differentiate_.shape.shared_bytes);
    finish_ = stage(function_name("attention_backward_finish", dtype, tiling.width), tiling);
    finish_.shape.grid_x = static_cast<unsigned>(query_blocks * sizes.batch);
  }

  std::string_view name() const override { return differentiate_.name; }
  std::size_t workspace_bytes() const override { return sum_bytes_ + product_bytes_ + turn_bytes_; }

  void launch(const LaunchArguments& arguments) override {
    parameters_.d_o = arguments.inputs[0];
    parameters_.q = arguments.inputs[1];
    parameters_.k = arguments.inputs[2];
    parameters_.v = arguments.inputs[3];
    parameters_.o = arguments.inputs[4];
    parameters_.log_sum_exp = static_cast<const float*>(arguments.inputs[5]);
    parameters_.dq = arguments.outputs[0];
    parameters_.dk = arguments.outputs[1];
    parameters_.dv = arguments.outputs[2];
    require_vectors({parameters_.d_o, parameters_.q, parameters_.k, parameters_.v, parameters_.o});
    require_vectors({parameters_.dq, parameters_.dk, parameters_.dv});
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    parameters_.dq_sums = reinterpret_cast<float*>(workspace);
    parameters_.products = reinterpret_cast<float*>(workspace + sum_bytes_);
    parameters_.turns = reinterpret_cast<unsigned*>(workspace + sum_bytes_ + product_bytes_);
    void* pointers[] = {&parameters_, &query_blocks_};
    for (const Stage* stage : {&prepare_, &differentiate_, &finish_}) {
      context_.launch(stage->function, stage->shape, pointers, stage->name.c_str());
    }
  }

 private:
  static constexpr int kRowsToPrepare = 32;  // a block of kernels/attention_backward.cu's first kernel

  struct Stage {
    CUfunction function = nullptr;
    std::string name;
    LaunchShape shape;
  };

  Stage stage(std::string name, const AttentionTiling& tiling) {
    Stage made{context_.kernel("attention_backward", name.c_str()), std::move(name), {}};
    made.shape.block_x = static_cast<unsigned>(tiling.threads());
    return made;
  }

  CudaContext& context_;
  AttentionBackward parameters_;
  int query_blocks_ = 0;
  std::size_t sum_bytes_ = 0;
  std::size_t product_bytes_ = 0;
  std::size_t turn_bytes_ = 0;
  Stage prepare_, differentiate_, finish_;
};

}  // namespace

bool has_attention(const CardFacts& card, const Graph& graph, const Node& node) {
  const std::size_t q = node.op == Op::attention ? 0 : 1;
  const TensorType& type = graph.type(node.inputs[q]);
  if (type.dtype != DType::bf16 && type.dtype != DType::fp16) return false;
  const Sizes sizes = sizes_of(type.shape, graph.type(node.inputs[q + 1]).shape);
  const std::optional<AttentionTiling> tiling = tiling_for(node.op, sizes.width);
  if (!tiling || sizes.width % 8 != 0 || sizes.queries == 0 || sizes.batch == 0) return false;
  const int shared_bytes = node.op == Op::attention ? tiling->forward_shared_bytes() : tiling->backward_shared_bytes();
  if (static_cast<std::size_t>(shared_bytes) > card.shared_bytes_per_block) return false;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 64;  // a tile's rows past the last
  const std::int64_t rows = std::max(sizes.queries, sizes.keys);
  return rows <= kMost && sizes.batch * ceil_divide(rows, 64) <= kMost;
}

std::unique_ptr<Kernel> make_attention_kernel(CudaContext& context, const KernelSpec& spec) {
  return std::make_unique<Attention>(context, spec);
}

std::unique_ptr<Kernel> make_attention_backward_kernel(CudaContext& context, const KernelSpec& spec) {
  return std::make_unique<AttentionGradient>(context, spec);
}

}  // namespace ridgepoint::cuda
