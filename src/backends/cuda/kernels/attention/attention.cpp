#include "backends/cuda/kernels/attention/attention.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/driver/kernel_launch.h"
#include "backends/cuda/kernels/attention/parameters.h"

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

// How the work is cut, and by which kernels of which file.
struct Cut {
  std::string image;
  std::string function;
  std::string suffix;  // of the kernels that go with it
  int width = 0;
  int rows = 0;  // of q a block or step
  int keys = 0;
  int threads = 0;
  int shared_bytes = 0;
};

template <class Tiling>
Cut cut_of(Op op, DType dtype, const Tiling& tiling) {
  const bool is_forward = op == Op::attention;
  const bool splits = dtype == DType::fp32;
  Cut cut;
  cut.image = fmt::format("attention/attention_{}{}", splits ? "split_" : "", is_forward ? "forward" : "backward");
  cut.suffix = splits ? "split" : std::string(ridgepoint::name(dtype));
  cut.function = fmt::format("attention_{}_{}{}_{}", is_forward ? "forward" : "backward", splits ? "" : "tiled_",
                             cut.suffix, tiling.width);
  cut.width = tiling.width;
  cut.rows = tiling.rows;
  cut.keys = tiling.keys;
  cut.threads = tiling.threads();
  cut.shared_bytes = is_forward ? tiling.forward_shared_bytes() : tiling.backward_shared_bytes();
  return cut;
}

// The narrowest that holds the head, where a block of the card has the memory for it.
template <class Tilings>
std::optional<Cut> narrowest(const CardFacts& card, Op op, DType dtype, const Tilings& tilings, std::int64_t width) {
  for (const auto& tiling : tilings) {
    if (width > tiling.width) continue;
    Cut cut = cut_of(op, dtype, tiling);
    if (static_cast<std::size_t>(cut.shared_bytes) <= card.shared_bytes_per_block) return cut;
  }
  return std::nullopt;
}

std::optional<Cut> find_cut(const CardFacts& card, Op op, DType dtype, std::int64_t width) {
  const bool is_forward = op == Op::attention;
  switch (dtype) {
    case DType::bf16:
    case DType::fp16:
      return narrowest(card, op, dtype, is_forward ? kForwardTilings : kBackwardTilings, width);
    case DType::fp32:
      return is_forward ? narrowest(card, op, dtype, kSplitForwardTilings, width)
                        : narrowest(card, op, dtype, kSplitBackwardTilings, width);
    default:
      return std::nullopt;
  }
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

class Attention : public Kernel {
 public:
  Attention(CudaContext& context, const KernelSpec& spec) : context_(context) {
    const Sizes sizes = sizes_of(spec.inputs[0].shape, spec.inputs[1].shape);
    const Cut cut = find_cut(context.card(), Op::attention, spec.inputs[0].dtype, sizes.width).value();
    set_sizes(parameters_, spec, sizes);
    name_ = cut.function;
    function_ = context.kernel(cut.image, name_.c_str());
    shape_.grid_x = static_cast<unsigned>(ceil_divide(sizes.queries, cut.rows) * sizes.batch);
    shape_.block_x = static_cast<unsigned>(cut.threads);
    shape_.shared_bytes = static_cast<unsigned>(cut.shared_bytes);
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

// Three launches: what each query needs, the gradients with q's as sums, and q's from those; two where q's gradient is
// fp32 itself and holds the sums.
class AttentionGradient : public Kernel {
 public:
  AttentionGradient(CudaContext& context, const KernelSpec& spec) : context_(context) {
    const Sizes sizes = sizes_of(spec.inputs[1].shape, spec.inputs[2].shape);
    const DType dtype = spec.inputs[1].dtype;
    const Cut cut = find_cut(context.card(), Op::attention_backward, dtype, sizes.width).value();
    set_sizes(parameters_, spec, sizes);
    parameters_.batch = static_cast<int>(sizes.batch);
    const std::int64_t query_blocks = ceil_divide(sizes.queries, cut.rows);
    query_blocks_ = static_cast<int>(query_blocks);
    product_bytes_ = static_cast<std::size_t>(sizes.batch * sizes.queries) * sizeof(float);
    turns_ = static_cast<std::size_t>(sizes.batch * query_blocks);

    Stage prepare = stage(cut.image, "attention_backward_prepare_" + cut.suffix, 8 * kRowsToPrepare);
    prepare.shape.grid_x = block_count(sizes.batch * sizes.queries, kRowsToPrepare);
    Stage differentiate = stage(cut.image, cut.function, cut.threads);
    differentiate.shape.grid_x = static_cast<unsigned>(ceil_divide(sizes.keys, cut.keys) * sizes.batch);
    differentiate.shape.shared_bytes = static_cast<unsigned>(cut.shared_bytes);
    context.allow_shared(differentiate.function, differentiate.shape.shared_bytes);
    stages_ = {std::move(prepare), std::move(differentiate)};
    if (dtype == DType::fp32) return;
    sum_bytes_ = static_cast<std::size_t>(sizes.batch * query_blocks * cut.rows * cut.width) * sizeof(float);
    Stage finish = stage(cut.image, fmt::format("attention_backward_finish_{}_{}", cut.suffix, cut.width), cut.threads);
    finish.shape.grid_x = static_cast<unsigned>(query_blocks * sizes.batch);
    stages_.push_back(std::move(finish));
  }

  std::string_view name() const override { return stages_[1].name; }
  // The sums, the products, the turns and the count of blocks that have started.
  std::size_t workspace_bytes() const override { return sum_bytes_ + product_bytes_ + (turns_ + 1) * sizeof(unsigned); }

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
    parameters_.started = parameters_.turns + turns_;
    void* pointers[] = {&parameters_, &query_blocks_};
    for (const Stage& stage : stages_) context_.launch(stage.function, stage.shape, pointers, stage.name.c_str());
  }

 private:
  static constexpr int kRowsToPrepare = 32;  // a block of kernels/attention_backward.cu's first kernel

  struct Stage {
    CUfunction function = nullptr;
    std::string name;
    LaunchShape shape;
  };

  Stage stage(const std::string& image, std::string name, int threads) const {
    Stage made{context_.kernel(image, name.c_str()), std::move(name), {}};
    made.shape.block_x = static_cast<unsigned>(threads);
    return made;
  }

  CudaContext& context_;
  AttentionBackward parameters_;
  int query_blocks_ = 0;
  std::size_t sum_bytes_ = 0;
  std::size_t product_bytes_ = 0;
  std::size_t turns_ = 0;
  std::vector<Stage> stages_;
};

// The forward kernels of 16-bit operands find the largest score of a row before they scale it.
bool takes_scale(const Node& node, DType dtype) {
  if (node.op == Op::attention_backward || dtype == DType::fp32) return true;
  const auto scale = static_cast<float>(node.attributes.get<double>("scale"));
  return scale > 0 && scale <= std::numeric_limits<float>::max() / 2;  // it is multiplied by log2(e)
}

}  // namespace

bool has_attention(const CardFacts& card, const Graph& graph, const Node& node) {
  const std::size_t q = node.op == Op::attention ? 0 : 1;
  const TensorType& type = graph.type(node.inputs[q]);
  const Sizes sizes = sizes_of(type.shape, graph.type(node.inputs[q + 1]).shape);
  if (sizes.width * static_cast<std::int64_t>(size_bytes(type.dtype)) % kVectorBytes != 0) return false;
  if (!takes_scale(node, type.dtype)) return false;
  if (sizes.queries == 0 || sizes.batch == 0 || !find_cut(card, node.op, type.dtype, sizes.width)) return false;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 64;
  const std::int64_t rows = std::max(sizes.queries, sizes.keys);
  return rows <= kMost && sizes.batch * ceil_divide(rows, 32) <= kMost;
}

std::unique_ptr<Kernel> make_attention_kernel(CudaContext& context, const KernelSpec& spec) {
  return std::make_unique<Attention>(context, spec);
}

std::unique_ptr<Kernel> make_attention_backward_kernel(CudaContext& context, const KernelSpec& spec) {
  return std::make_unique<AttentionGradient>(context, spec);
}

}  // namespace ridgepoint::cuda
