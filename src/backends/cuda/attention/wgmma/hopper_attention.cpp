// Which of Hopper's attention kernels runs what, and the host side of attention_forward_wgmma.cu.
#include <algorithm>
#include <numbers>

#include "backends/cuda/attention/common/host.h"
#include "backends/cuda/attention/wgmma/hopper_division.h"
#include "backends/cuda/attention/wgmma/hopper_variants.h"
#include "backends/cuda/driver/tensor_map.h"

namespace ridgepoint::cuda {
namespace {

// What the host sides of the attention kernels for Hopper share.
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

HopperProblem problem_of(const Shape& q, const Shape& k, const Node& node) {
  const AttentionSizes sizes = sizes_of(q, k);
  HopperProblem problem{.matrices = sizes.batch, .groups = sizes.batch, .queries = sizes.queries, .keys = sizes.keys};
  problem.causal = attention_form(node.attributes).causal;
  if (sums_key_gradients(node)) problem.groups = sizes.batch / heads_per_key_head(q, k);
  return problem;
}

constexpr int kPieceColumns = 32;  // of what one block of a last kernel writes

// The workspace of the forward where tiles are divided: values and the log-sum-exp of each row of the parts.
struct ForwardWorkspace {
  ForwardWorkspace(const HopperForwardTiling& tiling, const HopperProblem& problem, int multiprocessors) {
    if (!tiling.divided) return;
    const std::int64_t rows = kPartsOfBlock * sharing_blocks(tiling, problem, multiprocessors) * tiling.rows;
    value_bytes = static_cast<std::size_t>(rows * tiling.width) * sizeof(float);
    log_sum_exp_bytes = static_cast<std::size_t>(rows) * sizeof(float);
  }
  std::size_t bytes() const { return value_bytes + log_sum_exp_bytes; }

  std::size_t value_bytes = 0, log_sum_exp_bytes = 0;
};

class HopperAttention : public Kernel {
 public:
  HopperAttention(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : context_(context),
        tiling_(tiling_of(kHopperForwardVariants, variant)),
        workspace_(tiling_, problem_of(spec.inputs[0].shape, spec.inputs[1].shape, spec.node),
                   context.card().multiprocessors) {
    const AttentionSizes sizes = sizes_of(spec.inputs[0].shape, spec.inputs[1].shape);
    set_sizes(parameters_, spec, sizes);
    parameters_.window = window_or_longest(parameters_.window, sizes);
    parameters_.tanh_scale = tanh_scale(parameters_.scale, parameters_.soft_cap);
    set_rows(parameters_.o, spec.outputs[0]);
    const std::int64_t blocks = ceil_divide(sizes.queries, tiling_.rows);
    parameters_.blocks = Divisor(static_cast<std::uint32_t>(blocks));
    parameters_.tiles = static_cast<int>(blocks * sizes.batch);
    const std::int64_t set =
        matrices_of_set(tiling_, problem_of(spec.inputs[0].shape, spec.inputs[1].shape, spec.node));
    parameters_.set = Divisor(static_cast<std::uint32_t>(set));
    parameters_.tiles_of_set = Divisor(static_cast<std::uint32_t>(set * blocks));
    const std::int64_t sorted =
        parameters_.causal ? std::min<std::int64_t>(sizes.batch, context.card().multiprocessors) : 1;
    parameters_.sorted = Divisor(static_cast<std::uint32_t>(sorted));
    parameters_.first_sorted = static_cast<int>(sizes.batch - sorted);
    q_ = MappedOperand(spec.inputs[0], tiling_.rows);
    const Divisor group = group_of(spec.inputs[0], spec.inputs[1]);
    k_ = MappedOperand(spec.inputs[1], tiling_.keys, group);
    v_ = MappedOperand(spec.inputs[2], tiling_.keys, group);
    kernel_ = stage_of(context, variant, variant.entry, std::min(parameters_.tiles, context.card().multiprocessors),
                       tiling_.threads(), tiling_.forward_shared_bytes());
    if (tiling_.divided) divide(problem_of(spec.inputs[0].shape, spec.inputs[1].shape, spec.node), variant);
  }

  std::string_view name() const override { return kernel_.name; }
  std::size_t workspace_bytes() const override { return workspace_.bytes(); }

  void launch(const LaunchArguments& arguments) override {
    require_vectors({arguments.outputs[0]});
    const CudaContext::Scope scope(context_);
    q_.map(arguments.inputs[0], parameters_.q);
    k_.map(arguments.inputs[1], parameters_.k);
    v_.map(arguments.inputs[2], parameters_.v);
    parameters_.o.data = arguments.outputs[0];
    parameters_.log_sum_exp = static_cast<float*>(arguments.outputs[1]);
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    parameters_.part_values = reinterpret_cast<float*>(workspace);
    if (tiling_.divided) parameters_.part_log_sum_exp = reinterpret_cast<float*>(workspace + workspace_.value_bytes);
    kernel_.launch(parameters_);
    if (tiling_.divided) combine_.launch(parameters_, sharing_blocks_);
  }

 private:
  void divide(const HopperProblem& problem, const KernelVariant& variant) {
    parameters_.steps_of_matrix = static_cast<int>(forward_steps(tiling_, problem));
    sharing_blocks_ = static_cast<int>(sharing_blocks(tiling_, problem, context_.card().multiprocessors));
    kernel_.shape.grid_x = static_cast<unsigned>(sharing_blocks_);
    const int pieces = tiling_.groups() * (tiling_.width / kPieceColumns);
    combine_ = stage_of(context_, variant, variant.finish_entry, std::int64_t{parameters_.tiles} * pieces, 128);
  }

  CudaContext& context_;
  HopperForwardTiling tiling_;
  ForwardWorkspace workspace_;
  HopperAttentionForward parameters_;
  MappedOperand q_, k_, v_;
  int sharing_blocks_ = 0;
  Launchable kernel_, combine_;
};

bool has_scores_of(HopperScores scores, const AttentionForm& form, std::int64_t keys) {
  if (form.soft_cap > 0) return scores == HopperScores::soft_cap;
  return scores == (hiding_window(form, keys) > 0 ? HopperScores::window : HopperScores::plain);
}

// Up to this many keys, forwards of 128 queries or more are the portable kernel's: two of its blocks share a
// multiprocessor, so one computes while the other begins or ends.
constexpr std::int64_t kPortableKeys = 256;

HopperProblem problem_of_node(const KernelVariant& variant, const Graph& graph, const Node& node) {
  const auto q = static_cast<std::size_t>(variant.operand);
  return problem_of(graph.type(node.inputs[q]).shape, graph.type(node.inputs[q + 1]).shape, node);
}

// The host side of attention_backward_wgmma.cu: the backward of flash attention on Hopper.

// The workspace of the backward, as GradientWorkspace in attention.cpp; where blocks of keys are divided, the sums of
// dq come in slices, and those of dk and dv in parts.
struct BackwardWorkspace {
  BackwardWorkspace(const HopperBackwardTiling& tiling, const HopperProblem& problem, int multiprocessors) {
    if (tiling.divided) division = divide_backward(tiling, problem, multiprocessors);
    heads = share_heads(tiling, problem, multiprocessors);
    blocks = ceil_divide(problem.queries, tiling.rows);
    const std::int64_t key_blocks = ceil_divide(problem.keys, tiling.keys);
    const std::int64_t undivided = heads.parts > 1 ? 1 : 0;
    const std::int64_t parts_of_block = tiling.divided ? ceil_divide(blocks, division.chunk) : undivided;
    const std::int64_t key_parts = key_blocks * problem.groups * parts_of_block;
    sum_bytes = static_cast<std::size_t>(division.slices * problem.matrices * blocks * tiling.rows) *
                static_cast<std::size_t>(tiling.padded_width()) * sizeof(float);
    key_sum_bytes = static_cast<std::size_t>(key_parts * 2 * tiling.keys * tiling.width) * sizeof(float);
    product_bytes = static_cast<std::size_t>(problem.matrices * problem.queries) * sizeof(float);
    query_semaphores = static_cast<std::size_t>(division.slices * problem.matrices * blocks);
    semaphores_of_matrix = division.slices * blocks + (heads.parts > 1 ? kKeyWarps * key_blocks : 0);
    semaphores = static_cast<std::size_t>(problem.matrices * semaphores_of_matrix);
  }
  std::size_t bytes() const { return sum_bytes + key_sum_bytes + product_bytes + (semaphores + 1) * sizeof(unsigned); }

  static constexpr std::int64_t kKeyWarps = std::int64_t{4} * HopperBackwardTiling::kGroups;
  BackwardDivision division;
  SharedHeads heads;
  std::int64_t blocks = 0;                // of queries, in a matrix
  std::int64_t semaphores_of_matrix = 0;  // as many as make those of queries, and behind them those of keys
  std::size_t sum_bytes, key_sum_bytes, product_bytes, query_semaphores, semaphores;
};

// Three launches, as those of AttentionGradient in attention.cpp; two if the last block of keys writes dq.
class HopperAttentionGradient : public Kernel {
 public:
  HopperAttentionGradient(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant)
      : context_(context),
        tiling_(tiling_of(kHopperBackwardVariants, variant)),
        problem_(problem_of(spec.inputs[1].shape, spec.inputs[2].shape, spec.node)),
        workspace_(tiling_, problem_, context.card().multiprocessors) {
    set_operands(spec);
    set_division();
    constexpr int kRowsToPrepare = 32;  // for each block, as in attention_products.cuh
    const std::int64_t preparing =
        std::max(problem_.queries, ceil_divide(workspace_.semaphores_of_matrix, 8)) * problem_.matrices;
    prepare_ =
        stage_of(context_, variant, variant.prepare_entry, ceil_divide(preparing, kRowsToPrepare), 8 * kRowsToPrepare);
    const std::int64_t key_blocks = ceil_divide(problem_.keys, tiling_.keys) * problem_.groups *
                                    workspace_.heads.parts *
                                    (tiling_.divided ? ceil_divide(workspace_.blocks, workspace_.division.chunk) : 1);
    differentiate_ =
        stage_of(context_, variant, variant.entry, std::min<std::int64_t>(key_blocks, context.card().multiprocessors),
                 tiling_.threads(), tiling_.backward_shared_bytes());
    if (variant.finish_entry == nullptr) return;
    const std::int64_t tiles =
        problem_.matrices * workspace_.blocks * (tiling_.padded_width() / 64 * tiling_.rows / 64);
    finish_ = stage_of(context_, variant, variant.finish_entry, tiling_.divided ? pieces(tiles) : tiles, 128);
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
    if (rest.pairs > 0) {
      require_vectors({arguments.inputs[kCosinesOfAttention], arguments.inputs[kSinesOfAttention]});
      rest.cosines = static_cast<const float*>(arguments.inputs[kCosinesOfAttention]);
      rest.sines = static_cast<const float*>(arguments.inputs[kSinesOfAttention]);
    }
    set_workspace(static_cast<std::byte*>(arguments.workspace));
    prepare_.launch(rest, static_cast<int>(workspace_.semaphores_of_matrix));
    differentiate_.launch(parameters_);
    if (finish_.function != nullptr) finish_.launch(rest);
  }

 private:
  void set_operands(const KernelSpec& spec) {
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
    if (has_rotary_tables(spec.node)) rest.pairs = static_cast<int>(spec.inputs[kCosinesOfAttention].shape[1]);
    rest.summed_heads = static_cast<int>(problem_.matrices / problem_.groups);
    d_o_ = MappedOperand(spec.inputs[0], tiling_.rows);
    q_ = MappedOperand(spec.inputs[1], tiling_.rows);
    k_ = MappedOperand(spec.inputs[2], tiling_.keys, group);
    v_ = MappedOperand(spec.inputs[3], tiling_.keys, group);
  }

  void set_division() {
    AttentionBackward& rest = parameters_.rest;
    const std::int64_t heads = heads_of_set(tiling_, problem_, context_.card().multiprocessors);
    rest.set = Divisor(static_cast<std::uint32_t>(heads));
    const SharedHeads& shared = workspace_.heads;
    rest.numbers_of_set =
        Divisor(static_cast<std::uint32_t>(heads * ceil_divide(problem_.keys, tiling_.keys) * shared.parts));
    rest.parts = Divisor(static_cast<std::uint32_t>(shared.parts));
    rest.heads_of_part = static_cast<int>(shared.heads_of_part);
    rest.groups = Divisor(static_cast<std::uint32_t>(problem_.groups));
    rest.chunk = Divisor(static_cast<std::uint32_t>(workspace_.division.chunk));
    rest.slices = static_cast<int>(workspace_.division.slices);
  }

  void set_workspace(std::byte* at) {
    AttentionBackward& rest = parameters_.rest;
    rest.dq_sums = reinterpret_cast<float*>(at);
    at += workspace_.sum_bytes;
    rest.key_sums = reinterpret_cast<float*>(at);
    at += workspace_.key_sum_bytes;
    rest.products = reinterpret_cast<float*>(at);
    at += workspace_.product_bytes;
    rest.semaphores = reinterpret_cast<unsigned*>(at);
    rest.key_semaphores = rest.semaphores + workspace_.query_semaphores;
    rest.started = rest.semaphores + workspace_.semaphores;
  }

  // Of 32 columns: of tiles of dq, which have 64, and of the tiles of dk and dv.
  std::int64_t pieces(std::int64_t query_tiles) const {
    const std::int64_t key_tiles = ceil_divide(problem_.keys, tiling_.keys) * problem_.groups * 2 * (tiling_.keys / 64);
    return query_tiles * (64 / kPieceColumns) + key_tiles * (tiling_.width / kPieceColumns);
  }

  CudaContext& context_;
  HopperBackwardTiling tiling_;
  HopperProblem problem_;
  BackwardWorkspace workspace_;
  HopperAttentionBackward parameters_;
  MappedOperand d_o_, q_, k_, v_;
  Launchable prepare_, differentiate_, finish_;
};

}  // namespace

// Operands are q, k and v, or in the backward the gradient of o, q, k and v.
bool supports_hopper_layouts(const KernelSpec& spec) {
  const std::size_t operands = spec.node.op == Op::attention ? 3 : 4;
  for (std::size_t i = 0; i < operands; ++i) {
    if (!row_strides(spec.inputs[i]) || !MappedOperand(spec.inputs[i], 1).has_map()) return false;
  }
  const std::size_t k = operands - 2;
  return spec.inputs[k].shape[-2] > 0;
}

bool supports_hopper_form(const KernelVariant& variant, const AttentionForm& form, std::int64_t keys) {
  if (variant.op == Op::attention) {
    const HopperForwardTiling& tiling = tiling_of(kHopperForwardVariants, variant);
    const bool is_long_enough = keys > kPortableKeys || tiling.most_keys > 0;
    return has_scores_of(tiling.scores, form, keys) && is_long_enough &&
           (tiling.most_keys == 0 || keys <= tiling.most_keys);
  }
  const HopperBackwardTiling& tiling = tiling_of(kHopperBackwardVariants, variant);
  return has_scores_of(tiling.scores, form, keys) &&
         (!tiling.finishes() || (form.causal && keys <= tiling.most_causal_keys));
}

bool is_preferred_on_hopper(const KernelVariant& variant, const CardFacts& card, const Graph& graph, const Node& node) {
  const HopperProblem problem = problem_of_node(variant, graph, node);
  if (variant.op == Op::attention) {
    const HopperForwardTiling& tiling = tiling_of(kHopperForwardVariants, variant);
    if (tiling.key_groups > 1) return has_few_tiles(tiling, problem, card.multiprocessors);
    return !tiling.divided || suits_division(tiling, problem, card.multiprocessors);
  }
  const HopperBackwardTiling& tiling = tiling_of(kHopperBackwardVariants, variant);
  if (tiling.finishes()) return wanted_parts(tiling, problem, card.multiprocessors) == 1;
  return !tiling.divided || suits_division(tiling, problem, card.multiprocessors);
}

std::size_t hopper_forward_workspace_bytes(const KernelVariant& variant, const CardFacts& card,
                                           const KernelSpec& spec) {
  const HopperProblem problem = problem_of(spec.inputs[0].shape, spec.inputs[1].shape, spec.node);
  return ForwardWorkspace(tiling_of(kHopperForwardVariants, variant), problem, card.multiprocessors).bytes();
}

std::unique_ptr<Kernel> make_hopper_forward(CudaContext& context, const KernelSpec& spec,
                                            const KernelVariant& variant) {
  return std::make_unique<HopperAttention>(context, spec, variant);
}

std::size_t hopper_backward_workspace_bytes(const KernelVariant& variant, const CardFacts& card,
                                            const KernelSpec& spec) {
  const HopperProblem problem = problem_of(spec.inputs[1].shape, spec.inputs[2].shape, spec.node);
  return BackwardWorkspace(tiling_of(kHopperBackwardVariants, variant), problem, card.multiprocessors).bytes();
}

std::unique_ptr<Kernel> make_hopper_backward(CudaContext& context, const KernelSpec& spec,
                                             const KernelVariant& variant) {
  return std::make_unique<HopperAttentionGradient>(context, spec, variant);
}

}  // namespace ridgepoint::cuda
